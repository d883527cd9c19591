"""A Graph (and a SendGrid) that only counts: answers 202 after a set time, and remembers when which mailbox called.

Its own process, so that it does not share the interpreter of what is measured. Prints its port, then serves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from bisect import bisect_left
from collections import defaultdict

from aiohttp import web

from bench.windows import most_within, shortest


class Sink:
    """Counts calls per mailbox: how many, when, and the most at once.

    Its moments are those of ``time.monotonic``, which all processes of a machine share.
    """

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.keep_arrivals = False
        self.forget()

    def forget(self) -> None:
        """Begin to count anew."""
        self.times: list[float] = []
        self.in_flight: defaultdict[str, int] = defaultdict(int)
        self.most_in_flight = 0
        self.per_mailbox: defaultdict[str, list[float]] = defaultdict(list)
        self.arrivals: list[tuple[float, str]] = []

    async def send(self, request: web.Request) -> web.Response:
        """Take one mail."""
        mailbox = request.match_info.get("mailbox", "sendgrid")
        body = await request.read()
        now = asyncio.get_running_loop().time()
        self.times.append(now)
        self.per_mailbox[mailbox].append(now)
        self.in_flight[mailbox] += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight[mailbox])
        if self.keep_arrivals:
            self.arrivals.append((now, json.loads(body)["message"]["subject"]))
        if self.latency:
            await asyncio.sleep(self.latency)
        self.in_flight[mailbox] -= 1
        return web.Response(status=202)

    async def draft(self, request: web.Request) -> web.Response:
        """Make a draft."""
        await request.read()
        return web.json_response({"id": "draft", "internetMessageId": "<draft@sink>"}, status=201)

    async def open_upload(self, request: web.Request) -> web.Response:
        """Open an upload session for one file."""
        await request.read()
        return web.json_response(
            {"uploadUrl": f"http://{request.host}/upload", "nextExpectedRanges": ["0-"]}, status=201
        )

    async def put_range(self, request: web.Request) -> web.Response:
        """Take a range of a file; the last one ends it."""
        await request.read()
        reach, _, total = request.headers["Content-Range"].removeprefix("bytes ").partition("/")
        end = int(reach.partition("-")[2]) + 1
        if end == int(total):
            return web.Response(status=201)
        return web.json_response({"nextExpectedRanges": [f"{end}-"]})

    async def control(self, request: web.Request) -> web.Response:
        """Change what is asked for, and tell the counts.

        ``within`` also asks for the calls in the first seconds, ``window`` for the most calls of a mailbox in any so
        many seconds, ``limit`` for the shortest time in which a mailbox made more calls than that.
        """
        wanted = await request.json()
        self.latency = wanted.get("latency", self.latency)
        self.keep_arrivals = wanted.get("keep_arrivals", self.keep_arrivals)
        if wanted.get("forget"):
            self.forget()
        times = self.times
        within, window, limit = wanted.get("within"), wanted.get("window"), wanted.get("limit")
        each = self.per_mailbox.values()
        over = [span for moments in each if limit and (span := shortest(limit + 1, moments)) is not None]
        return web.json_response(
            {
                "now": asyncio.get_running_loop().time(),
                "calls": len(times),
                "callsWithin": bisect_left(times, times[0] + within) if within and times else None,
                "firstAt": times[0] if times else None,
                "lastAt": times[-1] if times else None,
                "mailboxes": len(each),
                "mostInFlight": self.most_in_flight,
                "mostInWindow": max((most_within(window, moments) for moments in each), default=0) if window else None,
                "shortestOver": min(over, default=None),
                "arrivals": self.arrivals if self.keep_arrivals else [],
            }
        )


async def serve(latency: float) -> None:
    """Serve until ended, the port printed first."""
    sink = Sink(latency)
    app = web.Application(client_max_size=2**23)
    app.router.add_post("/v1.0/users/{mailbox}/sendMail", sink.send)
    app.router.add_post("/v1.0/users/{mailbox}/messages", sink.draft)
    app.router.add_post("/v1.0/users/{mailbox}/messages/draft/attachments/createUploadSession", sink.open_upload)
    app.router.add_put("/upload", sink.put_range)
    app.router.add_post("/v1.0/users/{mailbox}/messages/draft/send", sink.send)
    app.router.add_post("/v3/mail/send", sink.send)
    app.router.add_post("/control", sink.control)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=600)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency-ms", type=float, default=0)
    asyncio.run(serve(parser.parse_args().latency_ms / 1000))
