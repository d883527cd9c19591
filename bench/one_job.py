"""One RQ job per message, as one would write it first: reserve in Redis, post to Graph. Run, it is a stock RQ worker.

It writes no database and keeps no history; the libraries are imported before the worker forks, as RQ advises.
"""

from __future__ import annotations

import os

import redis
import requests
from rq.cli.cli import main

_SCRIPT = """
local calls = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], 120)
local recipients = redis.call('INCRBY', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[2], 93600)
return {calls, recipients}
"""

_TIMEOUT = (5, 30)


class BareSender:
    """Reserves with one EVALSHA and posts with one session, both kept open."""

    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(os.environ["RQMAIL_REDIS_URL"])
        self._sha = self._redis.script_load(_SCRIPT)
        self._session = requests.Session()
        self._session.trust_env = False
        self._headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}

    def send(self, mailbox: str, body: str) -> None:
        """Send one mail."""
        self._redis.evalsha(self._sha, 2, f"bare:min:{mailbox}", f"bare:day:{mailbox}", 1)
        url = f"{os.environ['RQMAIL_GRAPH_BASE_URL']}/users/{mailbox}/sendMail"
        answer = self._session.post(url, data=body.encode(), headers=self._headers, timeout=_TIMEOUT)
        if answer.status_code != 202:
            raise RuntimeError(f"Graph answered {answer.status_code}")


_kept: list[BareSender] = []


def send_one(mailbox: str, body: str) -> None:
    """Send one mail: the job. A process that lives longer than a job keeps its connections."""
    if not _kept:
        _kept.append(BareSender())
    _kept[0].send(mailbox, body)


if __name__ == "__main__":
    main()
