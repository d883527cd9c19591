"""Campaigns of a working day: one that is over, one that goes out, one still a draft; and who gets no mail any more."""

from __future__ import annotations

import io
from datetime import timedelta

from rqmail.bootstrap import Application
from rqmail.campaigns.campaign import NewCampaign, nobody
from rqmail.campaigns.rendering import subject_of
from rqmail.models import audience, campaigns, progress, suppression
from rqmail.models.audience import Taking
from rqmail.models.base import pooled_connection
from rqmail.models.bounces import note_bounce
from rqmail.models.message import Message
from rqmail.models.suppression import INSTALLATION, Entry, Reason
from support.clock import MovableClock
from web.pages.populated import HTML, NAMES

SUBJECT = "Open dag op 28 november: tot ziens, {{ voornaam }}"
REFUSED = "ErrorInvalidRecipients: At least one recipient is not valid; the domain does not resolve."

#: What each mailbox of the pool sends in a minute.
POOL = {"mailbox:nieuws": 22, "mailbox:info": 9, "mailbox:facturen": 14}

#: Who gets no mail, why, and for how many days.
SUPPRESSED = (
    ("a.smits@example.nl", Reason.HARD_BOUNCE, "report of message 019e9f2c-5f0a-7c3e-9a51-0c2f5be1d7aa", 12),
    ("directie@bloem.example", Reason.COMPLAINT, "sanne", 40),
    ("fleur.kuipers8@example.nl", Reason.UNSUBSCRIBE, "link of message 019eb8b4-1c11-7b0e-8d53-51f8c6a0b1c2", 3),
    ("info@oudbedrijf.example", Reason.HARD_BOUNCE, "report of message 019e9f2c-61b7-7d10-b3c4-6d1f0a9e22f0", 12),
    ("joost@example.nl", Reason.MANUAL, "sanne", 88),
    ("noor.bakker11@example.nl", Reason.UNSUBSCRIBE, "link of message 019eb8b4-2d3a-7e4f-a1c0-9b7d5e3f1a20", 2),
    ("pers@dekrant.example", Reason.IMPORT, "uitgeschreven.csv", 120),
)


def run_campaigns(application: Application, clock: MovableClock) -> None:
    """Let the campaigns happen until now; the mailboxes are there already."""
    now = clock()
    with pooled_connection():
        suppression.keep(
            [Entry(who, INSTALLATION, why, source, now - timedelta(days=days)) for who, why, source, days in SUPPRESSED]
        )
        clock.set(now - timedelta(days=6, hours=2))
        _begin(application, "Winterprogramma", "Ons winterprogramma, {{ voornaam }}", 860)
        for _ in range(20):
            _pass_a_minute("Winterprogramma", clock)
        progress.end_those_done(clock())
        clock.set(now - timedelta(minutes=33))
        _begin(application, "Open dag", SUBJECT, 2_400)
        for _ in range(33):
            _pass_a_minute("Open dag", clock)
        _go_wrong("Open dag", clock)
        clock.set(now - timedelta(minutes=12))
        _create(application, "Jaarvergadering", "Agenda van de jaarvergadering, {{ voornaam }}", 431)
    clock.set(now)


def _create(application: Application, name: str, subject: str, people: int) -> None:
    rows = ["to,Voornaam"]
    for number in range(people):
        first, last = NAMES[number % len(NAMES)].split()[0], NAMES[number // 12 % len(NAMES)].split()[-1]
        rows.append(f"{first}.{last}{number}@example.nl".lower().replace("ë", "e") + f",{first}")
    keys = [sender.partition(":")[2] for sender in POOL]
    html = HTML.replace("Beste Sanne", "Beste {{ voornaam }}")
    application.campaigns.create(
        NewCampaign(name, keys, subject, html=html, language="nl"), io.BytesIO("\n".join(rows).encode())
    )


def _begin(application: Application, name: str, subject: str, people: int) -> None:
    _create(application, name, subject, people)
    application.campaigns.start(name)


def _pass_a_minute(name: str, clock: MovableClock) -> None:
    """Send what the mailboxes of the pool send in a minute."""
    campaign = campaigns.find(name)
    at = clock()
    audience.take(campaign.id, POOL, Taking(at, nobody, subject_of))
    for sender in POOL:
        mailbox = sender.partition(":")[2] + "@dewerkplaats.nl"
        Message.update(status="SENT", sent_on=at, attempted_on=at, attempts=1, mailbox_key=mailbox).where(
            Message.campaign_id == campaign.id, Message.status == "SCHEDULED", Message.sender == sender
        ).execute()
    clock.advance(minutes=1)


def _go_wrong(name: str, clock: MovableClock) -> None:
    """Let some of it be refused, some come back, and a few people unsubscribe."""
    campaign = campaigns.find(name)
    outcomes = progress.outcomes(campaign, limit=700)
    sent = [one for one in outcomes if one.message_id is not None]
    for one in sent[60:660:67]:
        Message.update(status="ERROR", sent_on=None, last_error=REFUSED).where(Message.id == one.message_id).execute()
    for number, one in enumerate(sent[5:660:41]):
        code = ("5.1.1", "5.2.2")[number % 2]
        note_bounce(one.message_id or "", one.address, code=code, detail=code, at=clock(), probable=False)
    for one in sent[3:600:97]:
        source = f"link of message {one.message_id}"
        suppression.keep([Entry(one.address, INSTALLATION, Reason.UNSUBSCRIBE, source, clock())])
