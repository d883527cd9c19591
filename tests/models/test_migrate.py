"""The tables and how they come about."""

from __future__ import annotations

from rqmail.models.migrate import migrate, pending
from support.databases import bound
from support.statements import plan


def test_migrating_again_does_nothing(database):
    assert pending() == []
    assert migrate() == []


def test_sqlite_knows_which_index_to_use_on_the_very_connection_that_made_the_tables(tmp_path):
    with bound("sqlite", f"sqlite:///{tmp_path}/new.db"):
        migrate()
        for sql in ("SELECT id FROM message WHERE status = 'SCHEDULED' ORDER BY sender LIMIT 1",):
            assert "message_due" in "\n".join(plan(sql, ()))
