"""What somebody who handed a mail in should know about it, said on the next page they see."""

from __future__ import annotations

from flask import flash

from rqmail.intake.draft import Checked
from rqmail.web.pages import field_words, words
from rqmail.web.pages.language import say


def tell_notices(taken: Checked) -> None:
    """Say which addresses were named twice or are suppressed, and what may not arrive as it was handed in."""
    for fold in taken.folded:
        named = {"to": say("To"), "cc": "Cc", "bcc": "Bcc"}
        flash(
            say(
                "%(address)s was named twice: kept in %(kept)s, left out of %(other)s.",
                address=fold.address,
                kept=named[fold.kept],
                other=named[fold.left_out],
            ),
            "warning",
        )
    for one in taken.message.left_out:
        why = words.SUPPRESSION_REASONS[one.reason]
        flash(
            say("%(address)s is suppressed (%(reason)s) and gets nothing.", address=one.address, reason=why), "warning"
        )
    for notice in taken.notices:
        flash(say(field_words.NOTICES[notice.code], about=notice.about), "warning")
