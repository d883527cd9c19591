"""The alerts and the dashboard ask for numbers that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from flask.testing import FlaskClient

from rqmail.models.message import MessageStatus
from rqmail.web.pages.words import OUTCOMES

DEPLOY = Path(__file__).parents[2] / "deploy"
SERIES = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}


def asked() -> dict[str, str]:
    """Every expression of the alerts, the dashboard and the autoscaler, by where it stands."""
    rules = yaml.safe_load((DEPLOY / "observability" / "rqmail.rules.yml").read_text(encoding="utf-8"))
    dashboard = json.loads((DEPLOY / "observability" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    found = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    for panel in dashboard["panels"]:
        found[panel["title"]] = " ".join(target["expr"] for target in panel["targets"])
    worker = yaml.safe_load_all((DEPLOY / "kubernetes" / "worker.yaml").read_text(encoding="utf-8"))
    [scaler] = [one["spec"] for one in worker if one["kind"] == "HorizontalPodAutoscaler"]
    found["autoscaler"] = " ".join(metric["external"]["metric"]["name"] for metric in scaler["metrics"])
    return found


def test_every_number_that_is_asked_for_is_exported_and_none_is_left_out(client: FlaskClient) -> None:
    types = re.findall(r"^# TYPE (rqmail_\w+) (\w+)$", client.get("/metrics").text, re.MULTILINE)
    exported = {name + suffix for name, kind in types for suffix in SERIES[kind]}
    named = {name for expression in asked().values() for name in re.findall(r"rqmail_\w+", expression)}
    assert named <= exported
    assert {name for name, kind in types if kind != "histogram"} <= named, "a number nobody looks at"


@pytest.mark.parametrize(("label", "known"), [("outcome", set(OUTCOMES)), ("status", set(MessageStatus))])
def test_the_values_of_labels_that_are_asked_for_exist(label: str, known: set[str]) -> None:
    named = {value for text in asked().values() for value in re.findall(rf'\b{label}="(\w+)"', text)}
    assert named
    assert named <= known
