"""What was changed by whom, and for how long that is remembered."""

from __future__ import annotations

from datetime import timedelta

from rqmail.administration.audit import Audit


def test_changes_are_forgotten_once_they_are_old_enough(database, clock):
    audit = Audit(clock)
    for subject in ("mailbox:old", "mailbox:new"):
        with audit.change("sanne", "mailbox.set", subject):
            pass
        clock.advance(days=1)
    assert audit.purge(timedelta(days=1, hours=12)) == 1
    assert [line.subject for line in audit.lines()] == ["mailbox:new"]
