"""What ``rqmail doctor`` prints: everything that can be checked, and alike findings of many senders as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rqmail.administration.checkup import Finding, alike
from rqmail.bootstrap import application
from rqmail.errors import SettingsError
from rqmail.insight.standing import Sentence

_KEYS_NAMED = 3

#: What there can be many of, and how many of them are called.
_MANY = {"mailbox": "mailboxes", "tenant": "tenants"}


def check_everything() -> list[Finding]:
    """Make every check that can be made; with settings that cannot be used that is none."""
    try:
        app = application()
    except SettingsError as error:
        text = Sentence("settings-wrong", str(error), detail=str(error))
        return [Finding("settings", "error", text, Sentence("correct", f"correct {error.field}", field=error.field))]
    return app.checkup.everything()


def alike_as_one(findings: Iterable[Finding]) -> list[Finding]:
    """Put what is the same of many mailboxes or tenants into one finding, with their number and the first few keys."""
    return [members[0] if len(members) == 1 else _together(members) for members in alike(findings)]


def _together(members: list[Finding]) -> Finding:
    first, keys = members[0], [one.key for one in members]
    more = f" and {len(keys) - _KEYS_NAMED:,} more" if len(keys) > _KEYS_NAMED else ""
    text = f"{first.text} ({', '.join(keys[:_KEYS_NAMED])}{more})"
    return replace(
        first, name=f"{len(keys):,} {_MANY[first.kind]}", text=Sentence(first.text.code, text, **first.text.values)
    )
