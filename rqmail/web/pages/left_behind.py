"""After an edit of a sender: how many messages of unknown outcome depend on what it was before."""

from __future__ import annotations

from flask import flash

from rqmail.web.context import changes
from rqmail.web.pages import words
from rqmail.web.pages.language import say_count, write_number


def warn_of_what_is_left(sender: str) -> None:
    """Tell the next page, if there are any, and how many of them nobody can look up any more."""
    left = changes().left_behind(sender)
    if left.messages:
        flash(say_count(words.LEFT_BEHIND, left.messages), "warning")
    if left.not_to_be_looked_up:
        number = write_number(left.not_to_be_looked_up)
        flash(say_count(words.NOT_TO_BE_LOOKED_UP, left.not_to_be_looked_up, number=number), "warning")
