"""The tables and how they come about."""

from __future__ import annotations

from rqmail.models.migrate import migrate, pending


def test_migrating_again_does_nothing(database):
    assert pending() == []
    assert migrate() == []
