"""Sends mail from Microsoft 365 mailboxes at scale, within each mailbox's budget, and never twice.

A tour, in the order in which it is easiest read:

1. ``errors.py``: how a send can end other than well, each class named after what is done next.
2. ``models/message.py``: the row that is the truth about a message, the table of its states, the one door to them;
   ``models/backlog.py``: the index seeks everything is decided on.
3. ``ratelimit/limiter.py`` with ``check_and_reserve.lua``: the brake. A place in a mailbox's minute and day is taken
   before Microsoft Graph is called, in one round trip, or it is said when there will be one.
4. ``mailers/base.py``, ``rate_limited.py``, ``graph.py``: the seam through which mail leaves, and the brake around it;
   ``graph_errors.py``: what each of Graph's answers means.
5. ``service.py``: what happens to one message. Every ending is decided here.
6. ``dispatch.py``: from the table to the queues, no more than the budgets admit; ``lanes.py``: one job's messages, sent
   side by side; ``recovery.py``: what was lost on the way.
7. ``bootstrap.py``: how all of that is put together; ``jobs/mail.py``: what RQ calls; ``scheduler.py``, ``worker.py``:
   the processes.
8. ``intake.py`` and ``importing.py``: mail comes in; ``changes.py``: every change a person makes, audited, over
   ``administration.py``, ``messages.py`` and ``access.py``; ``overview.py`` and ``explaining.py``: what is seen, and
   why nothing goes out. ``cli/`` and ``web/`` are the doors to them.
9. ``sandbox/``: a Microsoft Graph and Entra of our own, to run and test against without a tenant.

From Python::

    from rqmail import Draft, application

    application().intake.submit(Draft(sender="mailbox:news", subject="Hi", to="jan@example.org", text="Hello Jan"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rqmail.bootstrap import Application, application
    from rqmail.intake import Draft

__all__ = ["Application", "Draft", "__version__", "application"]

__version__ = "0.1.0"

_HOME = {"Application": "rqmail.bootstrap", "application": "rqmail.bootstrap", "Draft": "rqmail.intake"}


def __getattr__(name: str) -> Any:
    """Import the public names when they are asked for: ``rqmail --help`` needs none of them."""
    if name in _HOME:
        from importlib import import_module  # noqa: PLC0415

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
