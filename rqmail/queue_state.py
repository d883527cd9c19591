"""What carries the mail, as it stands in Redis: the queues, the workers that listen, the ticks; read without RQ."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from redis import Redis
from redis.exceptions import ResponseError

from rqmail.clock import Clock

#: First in every worker's list; then mail a person waits for; then the rest.
TICKS = "ticks"
MAIL_HIGH = "mail-high"
MAIL = "mail"
WORKER_QUEUES = (TICKS, MAIL_HIGH, MAIL)

#: RQ's own keys: the set of its workers, and how the keys of a worker and of a queue begin.
_WORKERS = "rq:workers"
_WORKER = "rq:worker:"
_QUEUE = "rq:queue:"

#: rq-scheduler's sorted set: the id of every scheduled job, by the second at which it is due.
SCHEDULE = "rq:scheduler:scheduled_jobs"

#: How the ids of ticks begin, and the tick that dispatches; whoever keeps the ticks coming moves it on at each poll.
TICK_PREFIX = "rqmail-tick-"
DISPATCH_TICK = f"{TICK_PREFIX}dispatch"

#: Ticks are late after this long, or after this many polls where those take longer.
_LATE = timedelta(seconds=10)
_LATE_POLLS = 3

#: A worker that ran a job of ours within this time is alive, whether or not RQ's own list knows it.
_AT_WORK = timedelta(seconds=60)

#: A hash: ``worker|queue`` → the second in which that worker last began a job from that queue.
_WORKING = "rqmail:working"
LAST_TICK = "rqmail:last-tick"


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One RQ worker as it last reported itself."""

    name: str
    state: str
    queues: tuple[str, ...]
    last_heartbeat: datetime | None


class QueueState:
    """Answers how many jobs wait, who works on them, and when a tick ran and will run."""

    def __init__(self, redis: Redis, clock: Clock, poll_seconds: int) -> None:
        self._redis = redis
        self._clock = clock
        self._poll_seconds = poll_seconds

    def last_tick(self) -> datetime | None:
        """Say when a dispatch last came to its end, if that was within a day."""
        raw = self._redis.get(LAST_TICK)
        try:
            return None if raw is None else datetime.fromtimestamp(float(raw), UTC)
        except (ValueError, OverflowError):  # whatever was written there, it is no moment
            return None

    def dispatch_due_on(self) -> datetime | None:
        """Say when the next dispatch is due, past where nobody queues what is due; ``None``: it is not scheduled."""
        due = self._redis.zscore(SCHEDULE, DISPATCH_TICK)
        # rq-scheduler counts whole seconds: it is due by the end of that one.
        return None if due is None else datetime.fromtimestamp(float(due) + 1, UTC)

    @property
    def late_after(self) -> timedelta:
        """How old a dispatch may be before the ticks are called late."""
        return max(_LATE, _LATE_POLLS * timedelta(seconds=self._poll_seconds))

    def depth(self) -> dict[str, int]:
        """Count the jobs waiting in each queue."""
        pipe = self._redis.pipeline(transaction=False)
        for name in WORKER_QUEUES:
            pipe.llen(f"{_QUEUE}{name}")
        return dict(zip(WORKER_QUEUES, pipe.execute(), strict=True))

    def eviction(self) -> str | None:
        """Answer by which policy the server throws keys away once its memory is full; ``None`` where it keeps all."""
        memory = self._redis.info("memory")
        policy = str(memory.get("maxmemory_policy", "noeviction"))
        return None if policy == "noeviction" or not memory.get("maxmemory") else policy

    def persistence(self) -> Literal["kept", "failing", "none", "untold"]:
        """Say whether the server keeps its data on disk, so that a restart does not empty it.

        ``failing``: it wants to, and the disk refuses; ``untold``: this user may not ask for its configuration.
        """
        told = self._redis.info("persistence")
        if "err" in (told.get("rdb_last_bgsave_status"), told.get("aof_last_write_status")):
            return "failing"
        if told.get("aof_enabled"):
            return "kept"
        try:
            saves = self._redis.config_get("save")
        except ResponseError:
            return "untold"
        return "kept" if saves.get("save") else "none"

    def note_at_work(self, worker: str, queue: str, *, tick_id: str | None = None) -> None:
        """Remember that ``worker`` begins a job from ``queue`` now, where an emptied Redis forgot that it is there.

        Further copies of a tick are taken out of the queues: one that was missed five times runs once.
        """
        pipe = self._redis.pipeline(transaction=False)
        pipe.sismember(_WORKERS, f"{_WORKER}{worker}")
        if tick_id is not None:
            for name in WORKER_QUEUES:
                pipe.lrem(f"{_QUEUE}{name}", 0, tick_id)
        if pipe.execute()[0]:
            return
        pipe = self._redis.pipeline(transaction=False)
        pipe.hset(_WORKING, f"{worker}|{queue}", str(int(self._clock().timestamp())))
        pipe.expire(_WORKING, _AT_WORK)
        pipe.execute()

    def workers(self) -> list[WorkerState]:
        """List the workers that listen on our queues: those RQ knows, and those that were at work within a minute."""
        known = [worker for worker in self._known_to_rq() if worker.queues]
        names = {worker.name for worker in known}
        ours = set(WORKER_QUEUES)
        return [w for w in known if ours & set(w.queues)] + [w for w in self._at_work() if w.name not in names]

    def _known_to_rq(self) -> list[WorkerState]:
        keys = sorted(_text(key) for key in self._redis.smembers(_WORKERS))
        pipe = self._redis.pipeline(transaction=False)
        for key in keys:
            pipe.hmget(key, ("state", "queues", "last_heartbeat"))
        return [
            WorkerState(
                name=key.removeprefix(_WORKER),
                state=(state or b"?").decode(),
                queues=tuple(queues.decode().split(",")) if queues else (),
                last_heartbeat=_moment(heartbeat),
            )
            for key, (state, queues, heartbeat) in zip(keys, pipe.execute(), strict=True)
        ]

    def _at_work(self) -> list[WorkerState]:
        """List who was at work lately, by the queues it was seen on; what is older is forgotten."""
        seen: dict[str, dict[str, datetime]] = {}
        for field, raw in self._redis.hgetall(_WORKING).items():
            worker, _, queue = _text(field).rpartition("|")
            at = datetime.fromtimestamp(int(raw), UTC) if raw.isdigit() else None
            if at is None or self._clock() - at > _AT_WORK:
                self._redis.hdel(_WORKING, field)
            else:
                seen.setdefault(worker, {})[queue] = at
        return [
            WorkerState(
                worker, "working", tuple(name for name in WORKER_QUEUES if name in queues), max(queues.values())
            )
            for worker, queues in seen.items()
        ]


def _moment(raw: bytes | None) -> datetime | None:
    try:
        return None if raw is None else datetime.fromisoformat(raw.decode())
    except ValueError:  # whatever was written there, it is no moment
        return None


def _text(raw: bytes | str) -> str:
    return raw if isinstance(raw, str) else raw.decode(errors="replace")
