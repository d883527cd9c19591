"""What needs a decision: messages of which nobody can tell whether they were sent, with what is known about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from flask import Blueprint, render_template, request

from rqmail.administration import messages
from rqmail.administration.access import Scope
from rqmail.administration.messages import Filter, MessageView
from rqmail.models.message import MessageStatus
from rqmail.web.auth import require
from rqmail.web.context import principal

blueprint = Blueprint("decisions", __name__, url_prefix="/decisions")

_PAGE = 200
_UNDECIDED = Filter(status=MessageStatus.UNKNOWN)

#: What can be decided, in the words of an action on many messages.
DECISIONS: Final = ("confirm-sent", "resend", "discard")

#: In the text of a message whose mailbox recovery may not read.
_MAY_NOT_READ = "Mail.Read is missing"


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of one mailbox that were lost for one reason within one minute: what is true of one is true of all."""

    sender: str
    mailbox_key: str | None
    minute: datetime | None
    attempt: dict[str, Any]
    why: str | None
    messages: tuple[MessageView, ...]

    @property
    def id(self) -> str:
        """What the group is called within the page."""
        return f"d-{self.messages[0].id}"

    @property
    def subject(self) -> str | None:
        """The subject they share, if they do."""
        subjects = {message.subject for message in self.messages}
        return subjects.pop() if len(subjects) == 1 else None


@blueprint.get("")
@require(Scope.READ)
def list_undecided() -> str:
    """Show them in groups, each with its evidence beside the buttons."""
    found = messages.find(_UNDECIDED, limit=_PAGE + 1, after=request.args.get("after") or None)
    shown = messages.show_all([line.id for line in found[:_PAGE]])
    return render_template(
        "pages/decisions.html",
        groups=grouped(shown),
        decisions=DECISIONS,
        unreadable=sorted({message.sender for message in shown if _MAY_NOT_READ in (message.last_error or "")}),
        after=shown[-1].id if len(found) > _PAGE else None,
    )


def grouped(undecided: Iterable[MessageView]) -> list[Group]:
    """Put together what has one mailbox, one cause and one minute, in the order in which it came."""
    together: dict[tuple[Any, ...], list[MessageView]] = {}
    for message in undecided:
        last = message.history[-1] if message.history else {}
        cause = (last.get("outcome"), last.get("status"), last.get("code")) if last else (message.last_error,)
        together.setdefault((message.sender, message.mailbox_key, cause, _minute(message)), []).append(message)
    return [_group(minute, tuple(members)) for (_, _, _, minute), members in together.items()]


def _group(minute: datetime | None, members: tuple[MessageView, ...]) -> Group:
    first = members[0]
    attempt = first.history[-1] if first.history else {}
    why = attempt.get("detail") or first.last_error
    return Group(first.sender, first.mailbox_key, minute, attempt, why, members)


def _minute(message: MessageView) -> datetime | None:
    return None if message.attempted_on is None else message.attempted_on.replace(second=0, microsecond=0)


@blueprint.app_context_processor
def _undecided() -> dict[str, Any]:
    """Let the menu say how many there are."""
    asking = principal()
    if asking is None or not asking.may(Scope.READ):
        return {"undecided": 0}
    return {"undecided": messages.count(_UNDECIDED)}
