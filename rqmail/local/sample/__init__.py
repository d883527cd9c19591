"""The sample campaign: two mailboxes, one with a limit of its own, and what they have to send."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files

from rqmail.bootstrap import Application
from rqmail.errors import ConflictError
from rqmail.intake.files import drafts


@dataclass(frozen=True, slots=True)
class SampleMailbox:
    """A mailbox of the sample; its mail is the file of the same name in this folder."""

    key: str
    address: str
    rate_limit_per_minute: int | None


MAILBOXES = (
    SampleMailbox("campaigns", "uitnodigingen@vereniging.example", 20),
    SampleMailbox("notices", "berichten@vereniging.example", None),
)


def add_mailboxes(app: Application) -> None:
    """See that the sample's mailboxes exist; one that does is left as it is."""
    for one in MAILBOXES:
        with suppress(ConflictError):
            app.mailboxes.add(one.key, one.address, rate_limit_per_minute=one.rate_limit_per_minute)


def load(app: Application) -> dict[str, list[str]]:
    """Hand the campaign in once more; answer the ids of its messages by mailbox."""
    ids = {}
    for one in MAILBOXES:
        with files("rqmail.local.sample").joinpath(f"{one.key}.csv").open("rb") as file:
            ids[one.key] = app.intake.submit_all(list(drafts(file, f"mailbox:{one.key}")))
    return ids
