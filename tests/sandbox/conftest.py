"""One sandbox per test module, as it was at its start for every test, and ways to speak to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.server import Sandbox
from sandbox.graph_client import GraphClient
from support.clock import MovableClock


@pytest.fixture(scope="module")
def sandbox_clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="module")
def running(sandbox_clock: MovableClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(data_dir=tmp_path_factory.mktemp("sandbox"), clock=sandbox_clock) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def running_control(running: Sandbox) -> SandboxControl:
    return SandboxControl(running.base_url, running.ca_file)


@pytest.fixture
def sandbox(running: Sandbox, running_control: SandboxControl) -> Sandbox:
    """The module's sandbox, empty."""
    running_control.reset()
    return running


@pytest.fixture
def control(sandbox: Sandbox, running_control: SandboxControl) -> SandboxControl:
    return running_control


@pytest.fixture
def graph(sandbox: Sandbox) -> Iterator[GraphClient]:
    client = GraphClient(sandbox)
    with client.http:
        yield client
