"""The whole system, started and stopped for real; and the sample it sends."""

import os
import signal
import subprocess
import sys
from importlib.resources import files

import pytest

from rqmail.clock import utc_now
from rqmail.intake.draft import check
from rqmail.intake.files import drafts
from rqmail.local.sample import MAILBOXES
from rqmail.local.story import is_real_graph
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET
from rqmail.settings import load_settings


def rqmail_run(folder, *more):
    return [sys.executable, "-m", "rqmail.cli", "run", "--var", str(folder), "--web-port", "0", *more]


def children_of(pid):
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
    return [int(line) for line in told.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's ps for the processes")
def test_ctrl_c_leaves_no_process_behind_and_a_second_run_is_refused(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RQMAIL_")}
    with subprocess.Popen(
        rqmail_run(tmp_path / "var"), stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as run:
        try:
            lines = []
            while not lines or "waiting" not in lines[-1]:
                lines.append(run.stdout.readline())
                assert lines[-1], lines
            started = children_of(run.pid)
            second = subprocess.run(
                rqmail_run(tmp_path / "var"), capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
            )
            assert (second.returncode, "in use by another" in second.stderr) == (1, True)
        finally:
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=90)
    assert run.returncode == 0
    assert len(started) >= 5  # Valkey, sandbox, scheduler, two workers
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


MINE = "0f3d7a52-77aa-4a0c-8f1e-5b1d0c9e7a11"


@pytest.mark.parametrize(
    ("client", "secret", "expected"),
    [
        (None, None, False),
        (MINE, None, False),
        (MINE, "s", True),
        (SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, False),
    ],
)
def test_the_real_graph_is_taken_only_with_an_app_of_ones_own(client, secret, expected):
    settings = load_settings(
        graph_tenant_id="contoso.onmicrosoft.com", graph_client_id=client, graph_client_secret=secret
    )
    assert is_real_graph(settings) is expected


def test_the_sample_is_sound_and_one_of_its_mailboxes_hits_its_budget():
    for mailbox in MAILBOXES:
        with files("rqmail.local.sample").joinpath(f"{mailbox.key}.csv").open("rb") as file:
            messages = [check(draft, utc_now()).message for draft in drafts(file, f"mailbox:{mailbox.key}")]
        assert len(messages) > (mailbox.rate_limit_per_minute or 25)
        for message in messages:
            assert all(to.address.endswith(".example") for to in message.recipients)
