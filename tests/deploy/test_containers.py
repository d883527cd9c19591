"""The files for containers: they run commands there are, on settings there are, without rights, and stop in time."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rqmail import bootstrap
from rqmail.cli import COMMANDS
from rqmail.clock import utc_now
from rqmail.queue_state import WORKER_QUEUES
from rqmail.settings import PREFIX, Settings
from rqmail.version import VERSION

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "rqmail"}
MANIFESTS = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
KUSTOMIZATION = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8"))
PROCESSES = {"scheduler", "worker", "web", "smtp"}
LONGEST_SEND = bootstrap.Application(Settings(_env_file=None), utc_now).queues._job_timeout_seconds

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed here")


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"].removeprefix("rqmail-"): one for one in MANIFESTS if one["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    return {
        name: one["spec"]["template"]["spec"] for kind in ("Deployment", "Job") for name, one in of_kind(kind).items()
    }


def settings_named(variables: dict[str, Any]) -> set[str]:
    return {name.removeprefix(PREFIX).removesuffix("_FILE").lower() for name in variables if name.startswith(PREFIX)}


def dockerfile() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            found.setdefault(word, []).append(rest)
    return found


def test_the_image_is_built_apart_runs_without_rights_and_asks_rqmail_itself_how_it_is():
    image = dockerfile()
    assert len(image["FROM"]) == 2
    assert image["FROM"][0].endswith(" AS build")
    assert image["USER"] == ["10001:10001"]
    assert image["HEALTHCHECK"][0].endswith('CMD ["rqmail", "init", "--check"]')
    assert image["ENTRYPOINT"] == ['["rqmail"]']
    extras = set(re.search(r"\.\[([\w,]+)\]", image["RUN"][0])[1].split(","))
    assert {"postgres", "web", "smtp"} <= extras
    allowed = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = {name for line in image["COPY"] if "--from" not in line for name in line.split()[:-1]}
    assert copied == allowed
    assert all((DEPLOY.parent / name).exists() for name in copied)


def test_the_procfile_names_every_process():
    lines = dict(line.split(": ", 1) for line in (DEPLOY / "Procfile").read_text(encoding="utf-8").splitlines())
    assert lines.keys() == PROCESSES | {"release"}
    assert {shlex.split(command)[1] for command in lines.values()} == PROCESSES | {"init"}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_service_of_compose_runs_a_command_there_is_without_rights_and_stops_in_time(name):
    service = OURS[name]
    assert OURS.keys() == PROCESSES | {"init"}
    assert service["command"][0] in COMMANDS
    assert settings_named(service["environment"]) <= set(Settings.model_fields)
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert int(service["stop_grace_period"].removesuffix("m")) * 60 > LONGEST_SEND
    assert set(service["secrets"]) <= COMPOSE["secrets"].keys()
    for variable, value in service["environment"].items():
        assert not variable.endswith("_FILE") or value.removeprefix("/run/secrets/") in service["secrets"]
    waits_for = {"postgres", "valkey"} if name == "init" else {"init"}
    assert service["depends_on"].keys() == waits_for


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_pod_runs_a_command_there_is_without_rights_on_settings_there_are(name):
    pod = pods()[name]
    assert pods().keys() == PROCESSES | {"init"}
    assert pod["securityContext"]["runAsNonRoot"]
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        rights = container["securityContext"]
        assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (True, False)
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    [main] = pod["containers"]
    assert main["args"][0] == name
    assert settings_named(of_kind("ConfigMap")["rqmail"]["data"]) <= set(Settings.model_fields)


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_a_process_of_kubernetes_is_probed_keeps_one_running_and_has_time_to_end(name):
    deployment = of_kind("Deployment")[name]
    pod = deployment["spec"]["template"]
    assert pod["spec"]["terminationGracePeriodSeconds"] > LONGEST_SEND
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert deployment["spec"]["replicas"] > 1
    [main] = pod["spec"]["containers"]
    assert "readinessProbe" in main
    assert ("livenessProbe" in main) == (name in {"web", "smtp"})
    labels = pod["metadata"]["labels"]
    selectors = [deployment["spec"]["selector"], of_kind("PodDisruptionBudget")[name]["spec"]["selector"]]
    assert all(selector["matchLabels"].items() <= labels.items() for selector in selectors)
    if name in of_kind("Service"):
        service = of_kind("Service")[name]["spec"]
        assert service["selector"].items() <= labels.items()
        assert [port["targetPort"] for port in service["ports"]] == [port["name"] for port in main["ports"]]


def test_workers_become_more_with_the_jobs_that_wait_for_them():
    scaler = of_kind("HorizontalPodAutoscaler")["worker"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "rqmail-worker"
    [metric] = scaler["metrics"]
    asked = metric["external"]["metric"]
    assert asked["name"] == "rqmail_queue_jobs"  # that it is exported, tests/web/test_observability.py holds
    assert asked["selector"]["matchLabels"]["queue"] in WORKER_QUEUES
    assert scaler["behavior"]["scaleDown"]["stabilizationWindowSeconds"] > LONGEST_SEND


def test_the_kustomization_names_every_file_and_this_version():
    files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
    assert [image["newTag"] for image in KUSTOMIZATION["images"]] == [VERSION]


@needs_kubectl
def test_kubectl_puts_the_manifests_together():
    built = subprocess.run(["kubectl", "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert len(list(yaml.safe_load_all(built.stdout))) == len(MANIFESTS)
