"""Senders tried with their provider: when they are saved on a page, and when somebody asks."""

from __future__ import annotations

from flask import flash

from rqmail.insight.checked import CheckView
from rqmail.web.context import application
from rqmail.web.pages.language import say


def check_saved(sender: str) -> None:
    """Ask about a sender that was just saved; tell the next page what its provider has against it."""
    check = application().checks.check_saved(sender)
    if check is not None and check.outcome != "not-known":
        _tell(sender, check)


def check_now(sender: str) -> None:
    """Ask about a sender because somebody wants to know, and tell the next page that it was done."""
    check = application().checks.check(sender)
    flash(say("%(key)s was checked.", key=_key(sender)))
    _tell(sender, check)


def _tell(sender: str, check: CheckView) -> None:
    if check.problem:
        level = "error" if check.level == "error" else "warning"
        flash(say("The check of %(key)s says: %(problem)s", key=_key(sender), problem=check.problem), level)


def _key(sender: str) -> str:
    return sender.partition(":")[2]
