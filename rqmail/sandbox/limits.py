"""What Exchange Online allows one mailbox, and the tenant, as numbers the sandbox enforces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one mailbox; the defaults are Microsoft's.

    ``in_flight`` calls at a time, ``requests_per_ten_minutes`` and ``upload_bytes_per_five_minutes`` answer 429. Above
    ``recipients_per_day`` (rolling 24 h) or ``recipients_per_message`` a mail is taken with 202 and never delivered;
    ``refuse_over_day`` answers 429 instead. ``messages_per_minute`` refuses nothing: mail above it is counted as
    carried over to a later minute. ``refuse_named_properties`` is a mailbox that can create no more of them.
    ``trace_requests_per_five_minutes`` holds for the whole tenant, and answers 429.
    """

    in_flight: int = 4
    requests_per_ten_minutes: int = 10_000
    recipients_per_day: int = 10_000
    recipients_per_message: int = 500
    messages_per_minute: int = 30
    upload_bytes_per_five_minutes: int = 150_000_000
    request_bytes: int = 4 * 1024 * 1024
    refuse_over_day: bool = False
    refuse_named_properties: bool = False
    retry_after_seconds: int = 5
    trace_requests_per_five_minutes: int = 100
