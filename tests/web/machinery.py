"""A scheduler and workers that seem to run: what they leave in Redis while they do."""

from __future__ import annotations

from datetime import datetime

from rqmail.bootstrap import Application
from rqmail.queue_state import SCHEDULE


def start_machinery(application: Application, now: datetime) -> None:
    """Put a tick and two workers into Redis, as those processes would."""
    beat = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    application.redis.set("rqmail:last-tick", now.timestamp() - 0.6)
    application.redis.delete(SCHEDULE)
    application.timetable.register()
    for name, state in (("mail-1.werk", "busy"), ("mail-2.werk", "idle")):
        told = {"birth": beat, "last_heartbeat": beat, "queues": "ticks,mail-high,mail", "state": state}
        application.redis.hset(f"rq:worker:{name}", mapping=told)
        application.redis.sadd("rq:workers", f"rq:worker:{name}")
