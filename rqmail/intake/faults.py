"""All that is wrong with a draft at once, for whoever can mend every field before trying again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from rqmail.errors import InvalidInputError
from rqmail.intake.draft import Checked, Checks, Draft

#: What stands in for a field that is wrong while the others are looked at. Pictures and HTML are checked against each
#: other: where either is wrong, both are left out.
_IN_ITS_PLACE: Final[dict[str, dict[str, Any]]] = {
    "to": {"to": "someone@example.org"},
    "cc": {"cc": ""},
    "bcc": {"bcc": ""},
    "subject": {"subject": "a subject"},
    "text": {"text": "a text"},
    "html": {"html": None, "text": "a text", "attachments": ()},
    "at": {"at": None},
    "expires": {"expires": None},
    "replyTo": {"reply_to": ""},
    "headers": {"headers": ()},
    "unsubscribeUrl": {"unsubscribe_url": None},
    "unsubscribe": {"unsubscribe": False},
    "from": {"from_": None},
    "attachments": {"html": None, "text": "a text", "attachments": ()},
}


def checked_or_faults(draft: Draft, checks: Checks) -> Checked | list[InvalidInputError]:
    """Answer a draft that passed every check, or what is wrong with each of its fields, the first fault of each."""
    found: dict[str, InvalidInputError] = {}
    while True:
        try:
            checked = checks.check(draft)
        except InvalidInputError as error:
            again = error.field in found
            found.setdefault(error.field, error)
            if again or error.field not in _IN_ITS_PLACE:
                return list(found.values())
            draft = replace(draft, **_IN_ITS_PLACE[error.field])
        else:
            return list(found.values()) if found else checked
