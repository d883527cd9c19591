"""What people do with campaigns, each step written down with who did it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, Self

from rqmail.administration.audit import Audit, Change
from rqmail.campaigns.audience import AS_IT_SAYS, ListReading
from rqmail.campaigns.campaign import Campaigns, Creation, NewCampaign
from rqmail.models import campaigns as stored
from rqmail.models.campaigns import Campaign


@dataclass(frozen=True)
class CampaignChanges:
    """Makes and steers campaigns and writes down who did it; :meth:`by` says who that is."""

    campaigns: Campaigns
    audit: Audit
    who: str = "nobody"

    def by(self, who: str) -> Self:
        """Answer the same, done in somebody's name."""
        return replace(self, who=who, campaigns=self.campaigns.by(who))

    def create(
        self,
        wanted: NewCampaign,
        file: IO[bytes],
        reading: ListReading = AS_IT_SAYS,
        *,
        skip_invalid: bool = False,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> Creation:
        """Create a campaign, as :meth:`~rqmail.campaigns.campaign.Campaigns.create` does."""
        made = self.campaigns.create(
            wanted, file, reading, skip_invalid=skip_invalid, dry_run=dry_run, on_progress=on_progress
        )
        if made.id is not None:  # stored in many transactions: written down after the last
            with self.audit.change(self.who, "campaign.create", _subject(made.name)) as change:
                change.after = {
                    "recipients": made.recipients,
                    "duplicates": made.duplicates,
                    "suppressed": made.suppressed,
                    "invalid": made.invalid,
                    "mailboxes": list(wanted.mailboxes),
                }
        return made

    def clone(self, name: str, new_name: str) -> Campaign:
        """Make a draft with the template, the settings and the people of another campaign."""
        cloned = self.campaigns.clone(name, new_name)
        with self.audit.change(self.who, "campaign.clone", _subject(cloned.name)) as change:
            change.after = {"of": name, "recipients": cloned.people}
        return cloned

    def delete(self, name: str) -> Campaign:
        """Delete a draft, and answer what it was."""
        with self._change("delete", name) as change:
            change.before = {"state": stored.find(name).state}
            return self.campaigns.delete(name)

    def test(self, name: str, to: str, row: int = 1) -> str:
        """Send somebody else what a person of the list would get; answer the message's id."""
        message_id = self.campaigns.test(name, to, row)
        with self.audit.change(self.who, "campaign.test", _subject(name)) as change:
            change.after = {"message": message_id, "row": row}
        return message_id

    def start(self, name: str) -> Campaign:
        """Let it go out."""
        return self._steered("start", name, self.campaigns.start)

    def pause(self, name: str) -> Campaign:
        """Send nothing more with the next tick."""
        return self._steered("pause", name, self.campaigns.pause)

    def resume(self, name: str) -> Campaign:
        """Go on after a pause."""
        return self._steered("resume", name, self.campaigns.resume)

    def cancel(self, name: str) -> Campaign:
        """End it."""
        return self._steered("cancel", name, self.campaigns.cancel)

    def retry_failed(self, name: str) -> int:
        """Send again what ended in ERROR or was discarded; answer how many."""
        with self._change("retry-failed", name) as change:
            again = self.campaigns.retry_failed(name)
            change.after = {"again": again}
        return again

    def change(self, name: str, *, mailboxes: Sequence[str] | None = None, **changes: Any) -> Campaign:
        """Change the pool or the settings, as :meth:`~rqmail.campaigns.campaign.Campaigns.change` does."""
        with self._change("set", name) as change:
            change.before = _settings(stored.find(name))
            changed = self.campaigns.change(name, mailboxes=mailboxes, **changes)
            change.after = _settings(changed)
        return changed

    def _steered(self, verb: str, name: str, act: Callable[[str], Campaign]) -> Campaign:
        with self._change(verb, name) as change:
            change.before = {"state": stored.find(name).state}
            steered = act(name)
            change.after = {"state": steered.state}
        return steered

    @contextmanager
    def _change(self, verb: str, name: str) -> Iterator[Change]:
        with self.audit.change(self.who, f"campaign.{verb}", _subject(stored.find(name).name)) as change:
            yield change


def _subject(name: str) -> str:
    return f"campaign:{name}"


def _settings(campaign: Campaign) -> dict[str, Any]:
    return {
        "pool": stored.senders_of([campaign.id])[campaign.id],
        "startsOn": campaign.starts_on,
        "expiresOn": campaign.expires_on,
        "window": campaign.window,
        "notWithinHours": campaign.not_within_hours,
    }
