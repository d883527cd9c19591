"""What a stock ``rq worker``, which forks a child for each job, has ready before it forks."""

from __future__ import annotations

import json
import subprocess
import sys

from rqmail.models.message import Message, MessageStatus
from rqmail.queue_state import TICKS
from rqmail.queues import DISPATCH_JOB, PURGE_JOB, RECOVER_JOB, SEND_JOB

#: RQ's own worker with our job class; each child writes which modules it imported, and for how many connections it
#: looked up the version of redis-py.
_WORKER = """if True:
    import json, os, sys
    from redis import Redis, utils
    from rq import Queue, Worker
    from rq.serializers import JSONSerializer
    from rqmail.queue_state import WORKER_QUEUES
    from rqmail.queues import MailJob

    looked_up = []
    look_up = utils.get_lib_version
    utils.get_lib_version = lambda: looked_up.append(1) or look_up()

    class Told(Worker):
        def perform_job(self, job, queue, execution):
            before = set(sys.modules)
            looked_up.clear()
            done = super().perform_job(job, queue, execution)
            told = {"job": job.func_name, "imported": sorted(set(sys.modules) - before), "lookedUp": len(looked_up)}
            os.write(1, json.dumps(told).encode() + b"\\n")
            return done

    redis = Redis.from_url(os.environ["RQMAIL_REDIS_URL"])
    queues = [Queue(name, connection=redis, job_class=MailJob, serializer=JSONSerializer) for name in WORKER_QUEUES]
    Told(queues, connection=redis, job_class=MailJob, serializer=JSONSerializer).work(
        burst=True, logging_level="WARNING"
    )
"""


def test_a_forked_job_imports_nothing_and_looks_nothing_up_on_disk(running):
    [sent] = running.submit()
    running.app.dispatcher.tick()
    for function in (DISPATCH_JOB, RECOVER_JOB, PURGE_JOB):
        running.app.queues._queues[TICKS].enqueue_call(function)
    ran = subprocess.run([sys.executable, "-c", _WORKER], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert Message.get_by_id(sent).status == MessageStatus.SENT
    assert {each["job"] for each in told} == {DISPATCH_JOB, RECOVER_JOB, PURGE_JOB, SEND_JOB}
    imported = {name for each in told for name in each["imported"]}
    # MSAL looks for this one, which is here for azure-identity alone, a library of the tests.
    assert {name for name in imported if not name.startswith("msal_extensions")} == set()
    assert [each["lookedUp"] for each in told] == [0] * len(told)
