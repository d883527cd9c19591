"""Starting, stopping and being trusted."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.limits import SandboxLimits
from rqmail.sandbox.server import Sandbox
from sandbox.graph_client import GraphClient

SERVE = """
import sys
from rqmail.sandbox.server import Sandbox
sandbox = Sandbox(data_dir=sys.argv[1])
sandbox.serve_forever(lambda: print(sandbox.base_url, flush=True))
print("ended")
"""


def test_a_restart_in_the_same_directory_keeps_the_certificates(tmp_path):
    with Sandbox(data_dir=tmp_path) as first:
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        trusted = first.ca_file
    with Sandbox(data_dir=tmp_path) as second:
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
        assert SandboxControl(second.authority, trusted).stats()["accepted"] == 0


def test_a_damaged_certificate_is_made_anew_under_the_same_authority(tmp_path):
    with Sandbox(data_dir=tmp_path) as first:
        authority = first.ca_file.read_bytes()
    (tmp_path / "server.pem").write_text("damaged")
    with Sandbox(data_dir=tmp_path) as second:
        assert second.ca_file.read_bytes() == authority
        assert SandboxControl(second.authority, second.ca_file).stats()["accepted"] == 0


def test_private_keys_can_be_read_by_their_owner_only(tmp_path):
    with Sandbox(data_dir=tmp_path):
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert (modes["ca-key.pem"], modes["server.pem"]) == (0o600, 0o600)


def test_without_a_directory_nothing_is_left_behind():
    with Sandbox() as sandbox:
        assert sandbox.ca_file.exists()
    assert not sandbox.ca_file.parent.exists()


def test_a_taken_port_is_an_error_at_once(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        Sandbox(taken.getsockname()[1], data_dir=tmp_path).start()


def test_limits_latency_and_clock_of_the_start_hold(tmp_path):
    with Sandbox(data_dir=tmp_path, latency_ms=1, limits=SandboxLimits(recipients_per_day=1)) as sandbox:
        client = GraphClient(sandbox)
        with client.http:
            client.send(to=("a@example.org", "b@example.org"))
        [mail] = SandboxControl(sandbox.authority, sandbox.ca_file).accepted()
    assert "dropped for limit" in mail["nonDelivery"]


def test_stopping_cuts_what_is_in_flight(tmp_path):
    sandbox = Sandbox(data_dir=tmp_path).start()
    client = GraphClient(sandbox)
    with client.http:
        SandboxControl(sandbox.authority, sandbox.ca_file).faults("hang", seconds=600)
        with pytest.raises(Exception, match="timed out"):
            client.send_with_timeout(0.1)
        sandbox.stop()


def test_serving_in_the_foreground_ends_with_a_signal(tmp_path):
    command = [sys.executable, "-W", "error", "-c", SERVE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        base_url = process.stdout.readline().strip()
        control = SandboxControl(base_url, tmp_path / "ca.pem")
        assert control.stats()["accepted"] == 0
        process.terminate()
        output, errors = process.communicate(timeout=20)
    assert (output, errors, process.returncode) == ("ended\n", "", 0)


def test_a_start_that_fails_says_so_instead_of_waiting(tmp_path):
    sandbox = Sandbox(data_dir=tmp_path)
    (tmp_path / "server.pem").unlink()
    with pytest.raises(FileNotFoundError):
        sandbox.start()
