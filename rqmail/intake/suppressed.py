"""Whom a message may not go to: asked once for many messages, and left out of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rqmail.errors import InvalidInputError
from rqmail.models.message import LeftOut, NewMessage
from rqmail.models.suppression import standing, told


class AllSuppressedError(InvalidInputError):
    """Nobody is left to whom a message may go; ``message`` is as it was handed in, ``left_out`` says why."""

    def __init__(self, message: NewMessage, left_out: Sequence[LeftOut]) -> None:
        super().__init__(
            "to",
            ", ".join(one.address for one in left_out[:5]),
            f"at least one recipient who is not suppressed: {told(left_out)}; see `rqmail suppression list`",
        )
        self.message = message
        self.left_out = tuple(left_out)


def without_suppressed(messages: Sequence[NewMessage]) -> list[NewMessage | AllSuppressedError]:
    """Answer each message without whom it may not go to, in their order; for one with nobody left, what is wrong.

    One look into an index for all of them.
    """
    found = standing(to.address for message in messages for to in message.recipients)
    if not found:
        return list(messages)
    answers: list[NewMessage | AllSuppressedError] = []
    for message in messages:
        kept, left_out = found.split(
            message.recipients, message.sender, ignore_unsubscribed=message.extras.ignore_unsubscribed
        )
        if not left_out:
            answers.append(message)
        elif kept:
            answers.append(replace(message, recipients=kept, left_out=left_out))
        else:
            answers.append(AllSuppressedError(message, left_out))
    return answers
