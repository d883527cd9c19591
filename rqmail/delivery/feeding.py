"""Campaigns on their way out: the people who wait become messages as the mailboxes of the pool have room for them.

So a campaign shares its pool's mailboxes by what their budgets have left, a mailbox that is paused or used up gives its
part to the others, and the lines of the mailboxes stay short however many people wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from rqmail.campaigns.pool import always_the_same
from rqmail.campaigns.rendering import subject_of
from rqmail.campaigns.window import window_of
from rqmail.clock import Clock
from rqmail.delivery.rooms import Room, budget_key, rooms_of
from rqmail.delivery.senders import Sender, Senders
from rqmail.logs import event_log
from rqmail.models import audience, campaigns, progress
from rqmail.models.audience import Taking
from rqmail.models.backlog import Due, count_due, due, unfinished
from rqmail.models.campaigns import Campaign, CampaignState
from rqmail.models.message import Message, Priority
from rqmail.ratelimit.limiter import MailRateLimiter

log = event_log()

#: Messages of a campaign that may not send now are looked at again by then, should nobody let them go.
_HELD_FOR = timedelta(hours=1)

#: Of a sender without limits of ours so many messages wait in its line at most.
_LINE_WITHOUT_LIMITS = 500

#: A sender, and the priority of the campaigns that send through it.
_Line = tuple[str, int]

#: Who stopped a campaign is in the audit; under this name the messages tell it.
_BY = "campaign"


class Feeder:
    """Keeps the lines of the mailboxes filled with campaigns' mail, and takes back what may not go now."""

    def __init__(
        self,
        senders: Senders,
        limiter: MailRateLimiter,
        clock: Clock,
        *,
        reserve_for_high: int,
        suppressed: Callable[[Sequence[str]], set[str]],
    ) -> None:
        self._senders = senders
        self._limiter = limiter
        self._clock = clock
        self._reserve_for_high = reserve_for_high
        self._suppressed = suppressed

    def feed(self) -> int:
        """Make messages of the people whose turn it is, and answer how many; without a campaign that costs one look."""
        opened = campaigns.open_campaigns()
        if not opened:
            return 0
        now = self._clock()
        sending = [campaign for campaign in opened if self._may_send(campaign, now)]
        made = self._fill(sending, now) if sending else 0
        for name in progress.end_those_done(now):
            log.info("mail.campaign.ended", campaign=name)
        return made

    def _may_send(self, campaign: Campaign, now: datetime) -> bool:
        """Say whether a campaign may send at this moment; of one that may not, what has not begun is taken back."""
        if campaign.state == CampaignState.RUNNING.value and _is_its_time(campaign, now):
            Message.let_go_campaign(campaign.id, now)
            return True
        audience.take_back(campaign.id)
        if campaign.state == CampaignState.CANCELLED.value or _has_expired(campaign, now):
            Message.cancel_campaign(campaign.id, now, _BY)
        else:
            Message.hold_campaign(campaign.id, now + _HELD_FOR)
        return False

    def _fill(self, sending: Sequence[Campaign], now: datetime) -> int:
        """Give every mailbox as much as it may send in a minute, the campaigns of one priority in turn."""
        audience.let_wait_again(now)
        pools = campaigns.senders_of([campaign.id for campaign in sending])
        members: defaultdict[_Line, list[int]] = defaultdict(list)
        for campaign in sending:
            for name in pools[campaign.id]:
                members[name, campaign.priority].append(campaign.id)
        lengths = self._lengths(list(members), now)
        there = audience.in_line(list(pools))
        by_id = {campaign.id: campaign for campaign in sending}
        for campaign_id, name in there:
            # A member that left the pool, or can send nothing now: its part is for the others.
            pool = pools[campaign_id]
            if name not in pool:
                _take_back_of_former(by_id[campaign_id], name, pool)
            elif lengths[name, by_id[campaign_id].priority] <= 0:
                audience.take_back(campaign_id, name)
        taking = Taking(now, self._suppressed, subject_of)
        made = 0
        for campaign in sending:
            shares = {}
            for name in pools[campaign.id]:
                line = (name, campaign.priority)
                part = _part(lengths[line], members[line], campaign.id)
                shares[name] = max(0, part - there.get((campaign.id, name), 0))
            if any(shares.values()):
                made += audience.take(campaign.id, shares, taking)
        return made

    def _lengths(self, lines: Sequence[_Line], now: datetime) -> dict[_Line, int]:
        """Answer how much campaign mail is to wait in each line: nothing where nothing could go."""
        known = self._senders.all()
        here = {name: known[name] for name, _ in lines if name in known}
        asked = [Due(name, Priority.LOW) for name in here]
        rooms = rooms_of(self._limiter, self._reserve_for_high, asked, known, unfinished(), now)
        waiting: defaultdict[str, list[Due]] = defaultdict(list)
        for one in due(now):
            waiting[budget_key(one.sender, known)].append(one)
        lengths = dict.fromkeys(lines, 0)
        for name, priority in lines:
            if name in here:
                key = here[name].budget_key
                length = _length(rooms[key], here[name])
                # What goes before it on that mailbox leaves it the rest of a minute, or nothing.
                before = [one for one in waiting[key] if one.priority < priority]
                if length > 0 and before:
                    length -= count_due(before, now, at_most=length)
                lengths[name, priority] = length
        return lengths


def _take_back_of_former(campaign: Campaign, name: str, pool: Sequence[str]) -> None:
    if audience.take_back(campaign.id, name) and campaign.sticky:
        audience.deal_anew(campaign, lambda person: always_the_same(pool, person))


def _length(room: Room, sender: Sender) -> int:
    if room.reason == "paused" or room.recipients == 0:
        return 0
    if sender.limits is None:
        return _LINE_WITHOUT_LIMITS
    # One more than a minute takes: what is given out evenly is given out evenly only while more waits.
    most = sender.limits.per_minute + 1
    return most if room.recipients is None else min(most, room.recipients)


def _part(length: int, campaign_ids: Sequence[int], campaign_id: int) -> int:
    """Answer a campaign's part of a line: all of them get the same, what is left goes to the first."""
    number = len(campaign_ids)
    return max(0, length) // number + (1 if campaign_ids.index(campaign_id) < max(0, length) % number else 0)


def _has_expired(campaign: Campaign, now: datetime) -> bool:
    return campaign.expires_on is not None and campaign.expires_on <= now


def _is_its_time(campaign: Campaign, now: datetime) -> bool:
    if _has_expired(campaign, now) or (campaign.starts_on is not None and campaign.starts_on > now):
        return False
    window = window_of(campaign.window)
    return window is None or window.is_open(now)
