"""The numbers for Prometheus, gathered when they are asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from flask import Blueprint, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from rqmail.administration.access import Scope
from rqmail.bootstrap import Application
from rqmail.insight.standing import SenderStatus, Status
from rqmail.metrics import BUCKETS, Sample, bound_text
from rqmail.web.api.document import operation
from rqmail.web.context import application

blueprint = Blueprint("metrics", __name__)

#: Counted events: the name in the totals, ours for Prometheus, what its label tells, and what it counts.
_COUNTED = (
    ("deferred", "rqmail_deferred", "reason", "Messages put off to a later moment"),
    ("denied", "rqmail_denied", "reason", "Reservations the limiter denied"),
    ("left-waiting", "rqmail_left_waiting", "reason", "Due messages left waiting, counted once a minute and mailbox"),
    ("fail-open", "rqmail_limiter_fail_open", "op", "Decisions the limiter could not take because of Redis"),
)


@blueprint.get("/metrics")
@operation(Scope.READ, "Monitoring", None)
def metrics() -> Response:
    """Answer all numbers in Prometheus' text format; asks for the scope ``read``, for it names mailboxes."""
    registry = CollectorRegistry()
    registry.register(_Numbers(application()))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class _Numbers(Collector):
    """Reads the shared totals and the overview once per scrape; keeps nothing itself."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        """Answer every family of numbers."""
        status = self._app.overview.status()
        samples = self._app.metrics.samples() if status.redis == "ok" else []
        # Sends are counted under the address whose budget they use; here every mailbox goes by its key.
        names = {(mailbox.address or "").strip().lower(): key for key, mailbox in status.mailboxes.items()}
        yield from _events(samples, names)
        yield from _messages(status)
        yield from _machinery(status)
        tenants = ((f"tenant:{key}", sender) for key, sender in status.tenants.items())
        yield from _budgets([*status.mailboxes.items(), *tenants, ("default", status.default)])


def _events(samples: list[Sample], names: dict[str, str]) -> Iterator[Metric]:
    for event, name, label, text in _COUNTED:
        counter = CounterMetricFamily(name, text, labels=[label])
        for sample in samples:
            if sample.event == event:
                counter.add_metric([sample.label], sample.count)
        yield counter

    sent = CounterMetricFamily("rqmail_sent", "Messages a provider accepted", labels=["mailbox"])
    by_outcome: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.event == "sent":
            sent.add_metric([names.get(sample.label, sample.label)], sample.count)
            by_outcome["accepted"].append(sample)
        elif sample.event == "call":
            by_outcome[sample.label].append(sample)
    yield sent

    calls = CounterMetricFamily("rqmail_provider_calls", "Calls to providers by how they ended", labels=["outcome"])
    seconds = HistogramMetricFamily(
        "rqmail_provider_call_seconds", "How long calls to providers took", labels=["outcome"]
    )
    for outcome, found in by_outcome.items():
        calls.add_metric([outcome], sum(sample.count for sample in found))
        timed = [sample for sample in found if sample.buckets]
        if timed:
            buckets = [
                (bound_text(bound), sum(sample.buckets[at] for sample in timed)) for at, bound in enumerate(BUCKETS)
            ]
            seconds.add_metric([outcome], buckets, sum(sample.seconds for sample in timed))
    yield calls
    yield seconds


def _messages(status: Status) -> Iterator[Metric]:
    messages = GaugeMetricFamily("rqmail_messages", "Messages by status", labels=["status"])
    for name, number in status.messages.items():
        messages.add_metric([name], number)
    yield messages
    oldest = 0.0 if status.oldest_waiting_on is None else (status.now - status.oldest_waiting_on).total_seconds()
    yield GaugeMetricFamily("rqmail_oldest_waiting_seconds", "How long the oldest mail has been due", value=oldest)


def _machinery(status: Status) -> Iterator[Metric]:
    yield GaugeMetricFamily("rqmail_redis_up", "Whether Redis can be used", value=float(status.redis == "ok"))
    yield GaugeMetricFamily("rqmail_workers", "Workers that listen on our queues", value=len(status.workers))
    queued = GaugeMetricFamily("rqmail_queue_jobs", "Jobs waiting in each queue", labels=["queue"])
    for name, number in status.queues.items():
        queued.add_metric([name], number)
    yield queued
    age = GaugeMetricFamily("rqmail_tick_age_seconds", "Seconds since a dispatch last came to its end")
    if status.last_tick_on is not None:
        age.add_metric([], max(0.0, (status.now - status.last_tick_on).total_seconds()))
    yield age


def _budgets(senders: Iterable[tuple[str, SenderStatus]]) -> Iterator[Metric]:
    labels = ["mailbox", "window"]
    used = GaugeMetricFamily("rqmail_budget_used", "What is used of a mailbox's budget", labels=labels)
    limit = GaugeMetricFamily(
        "rqmail_budget_limit", "A mailbox's budget: calls a minute, recipients a day", labels=labels
    )
    in_flight = GaugeMetricFamily("rqmail_in_flight", "Requests a mailbox has in flight", labels=["mailbox"])
    paused = GaugeMetricFamily("rqmail_paused", "Whether a sender is paused", labels=["mailbox"])
    waiting = GaugeMetricFamily(
        "rqmail_waiting", "Messages of a sender that are due and not finished", labels=["mailbox"]
    )
    for key, sender in senders:
        waiting.add_metric([key], sender.waiting)
        paused.add_metric([key], float(sender.paused_until is not None))
        budget = sender.budget
        if budget is None:
            continue
        for window, view in (("minute", budget.per_minute), ("day", budget.recipients_per_day)):
            if view.used is not None:
                used.add_metric([key, window], view.used)
            limit.add_metric([key, window], view.limit)
        if budget.in_flight is not None:
            in_flight.add_metric([key], budget.in_flight)
    yield from (used, limit, in_flight, paused, waiting)
