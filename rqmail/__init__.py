"""Sends mail from Microsoft 365 mailboxes at scale, within each mailbox's budget, and never twice.

A tour, by the way of one message; each folder's ``__init__.py`` says what it is in one sentence:

1. ``errors.py``: how a send can end other than well, each class named after what is done next.
2. ``intake/``: mail comes in. ``draft.py`` checks what is handed in, with ``addresses.py``; ``files.py`` reads it from
   files; ``content.py`` checks what a message carries beside its text (``attachments.py``, ``pictures.py``,
   ``headers.py``); ``idempotency.py`` takes a repeated request once.
   ``campaigns/``: one text for many people. ``audience.py`` reads the list, ``template.py`` renders, ``campaign.py``
   makes and steers; ``suppression.py`` knows who gets no mail, ``unsubscribing.py`` makes the links.
3. ``models/``: it waits in a table. ``message.py`` is the row that is the truth about a message: ``states.py`` the
   table of its states, ``row.py`` its columns and the one door to its status, ``claims.py``, ``results.py`` and
   ``decisions.py`` the moves through that door; ``backlog.py`` holds the index seeks everything is decided on;
   ``migrations/`` the steps by which the tables come about.
4. ``delivery/``: it goes out. ``feeding.py`` makes messages of the people campaigns go to; ``dispatch.py`` takes from
   the table to the queues no more than the budgets admit; ``lanes.py`` sends one job's messages side by side;
   ``outcomes.py`` decides what happens to each; ``recovery.py`` finds what was lost on the way; ``senders.py`` knows
   who a sender is.
5. ``ratelimit/``: the brake. ``limiter.py`` with ``check_and_reserve.lua`` takes a place in a mailbox's minute and day
   before Microsoft Graph is called, in one round trip, or says when there will be one.
6. ``mailers/``: the seam through which it leaves. ``base.py``, ``rate_limited.py`` (the brake around it), ``graph/``
   (``errors.py``: what each of Graph's answers means; ``upload.py``: a mail over one request),
   ``sendgrid.py``, ``http/`` (the one way out), ``factory.py``.
7. ``insight/``: people look. ``overview.py`` reads how things stand, ``explaining.py`` why nothing goes out,
   ``forecast.py`` about when it will be done, ``planning.py`` when exactly, and what if.
8. ``administration/``: people change. ``changes.py`` makes every change and has it audited, over one module a noun.
9. ``bootstrap.py``: how all of that is put together; ``jobs/mail.py``: what RQ calls; ``processes/``: the scheduler and
   the workers; ``queues.py``, ``metrics.py``, ``token_store.py``: what is kept in Redis beside the limiter;
   ``content_store.py``: where the bytes of attached files are kept.
10. ``cli/`` and ``web/``: the doors. ``local/``: the whole system on one machine. ``sandbox/``: a Microsoft Graph and
    Entra of our own, to run and test against without a tenant.

From Python::

    from rqmail import Draft, application

    application().intake.submit(Draft(sender="mailbox:news", subject="Hi", to="jan@example.org", text="Hello Jan"))

With ``connection=`` (psycopg's, Django's ``connection``, SQLAlchemy's ``connection.connection``) to the same PostgreSQL
database it is stored in the caller's own transaction: what is rolled back sends no mail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqmail.version import VERSION

if TYPE_CHECKING:
    from rqmail.bootstrap import Application, application
    from rqmail.intake.attachments import Attachment
    from rqmail.intake.draft import Draft

__all__ = ["Application", "Attachment", "Draft", "__version__", "application"]

__version__ = VERSION

_HOME = {
    "Application": "rqmail.bootstrap",
    "application": "rqmail.bootstrap",
    "Attachment": "rqmail.intake.attachments",
    "Draft": "rqmail.intake.draft",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are asked for: ``rqmail --help`` needs none of them."""
    if name in _HOME:
        from importlib import import_module  # noqa: PLC0415

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
