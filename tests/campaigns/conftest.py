"""Campaigns for tests: made as a person makes them, in an office that takes every mail."""

from __future__ import annotations

import io

import pytest

from rqmail.campaigns.campaign import Campaigns, NewCampaign
from rqmail.intake.draft import Intake
from support.office import Office


class CampaignOffice(Office):
    """An office with campaigns, and what a test asks of them."""

    def __init__(self, redis_client, clock, **options):
        super().__init__(redis_client, clock, **options)
        self.campaigns = Campaigns(clock, Intake(clock, lambda: None), lambda _: self.suppressed, who="sanne")

    def create(self, name="Spring", people=10, mailboxes=("news",), text=None, **fields):
        """Create a campaign for so many people, or for the rows of a list."""
        fields = {"subject": "Hello {{ name }}", "text": "Dear {{ name }} at {{ to }}"} | fields
        options = {key: fields.pop(key) for key in ("skip_invalid", "dry_run") if key in fields}
        rows = text or "to,name\n" + "".join(f"p{n}@example.org,Name{n}\n" for n in range(people))
        return self.campaigns.create(NewCampaign(name, mailboxes, **fields), io.BytesIO(rows.encode()), **options)

    def run(self, seconds, step=1):
        """Let ticks and workers run for a while."""
        for _ in range(0, seconds, step):
            self.tick()
            self.work()
            self.clock.advance(seconds=step)

    def addresses(self, start=0):
        """Whom the provider was given mail for, in order."""
        return [mail.to[0].address for _, mail in self.mails[start:]]


@pytest.fixture
def office(database, redis_client, clock):
    return CampaignOffice(redis_client, clock)


@pytest.fixture
def sqlite_office(sqlite_database, redis_client, clock):
    return CampaignOffice(redis_client, clock)
