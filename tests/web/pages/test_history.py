"""A message's page tells everything that happened to it, dated and in the viewer's language."""

from __future__ import annotations

import re
from datetime import timedelta

from rqmail.administration import messages
from rqmail.models.base import pooled_connection
from rqmail.models.history import line
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Attempt, Event, Message, MessageStatus
from support.messages import new_message, reloaded

EVERYTHING = ("handed-in", "waited", "looked-for", "confirmed-sent", "sent-again", "given-up", "cancelled")
EVERYTHING += ("discarded", "requeued", "brought-forward", "expired")


def told(person, message_id):
    """The history as it is read, line by line: without markup, its moments as HH:MM, of attempts the summary."""
    page = person.look(f"/ui/messages/{message_id}")
    found = re.findall(r'<li class="happened">(.*?)</li>|<summary>(<span class="badge.*?)</summary>', page, re.S)
    texts = [re.sub(r"<time[^>]*>\S+ (\S+) UTC</time>", r"\1", "".join(one)) for one in found]
    return [" ".join(re.sub(r"<[^>]+>", "", text).split()) for text in texts]


def sending(message_id):
    Message.update(status=MessageStatus.SENDING.value, claim="c").where(Message.id == message_id).execute()
    return reloaded(message_id)


def test_a_page_tells_one_dated_history_from_who_handed_it_in_to_who_decided(admin, beheerder, clock):
    with pooled_connection():
        [message_id] = Message.submit([new_message()], clock(), by="token erp")
        later = clock() + timedelta(hours=1)
        sending(message_id).defer(later, waiting_for="minute", now=clock.advance(minutes=1))
        clock.advance(minutes=4)
        attempt = Attempt(at=clock().isoformat(), outcome="unknown", duration_ms=30_000, status=504)
        sending(message_id).mark_unknown(attempt, look_at=clock(), error="no answer")
        looked = Event(clock.advance(minutes=1), "looked-for", detail="Not found yet.")
        reloaded(message_id).look_again_at(clock(), looked=looked)
        messages.resolve(message_id, messages.Decision.RESEND, clock.advance(minutes=1), "sanne")
        messages.act_on_all("cancel", messages.Filter(), clock.advance(minutes=1), "jan")
    assert told(admin, message_id) == [
        "09:38 · Cancelled · jan",
        "09:37 · Sent again · sanne · A person had it sent again.",
        "09:36 · Looked for at the provider · Not found yet.",
        "Unknown 09:35 · HTTP 504",
        "09:31 · Waited: minute budget (4 min)",
        "09:30 · Handed in · token erp",
    ]
    assert told(beheerder, message_id) == [
        "09:38 · Geannuleerd · jan",
        "09:37 · Opnieuw verzonden · sanne · A person had it sent again.",
        "09:36 · Gezocht bij de provider · Not found yet.",
        "Onzeker 09:35 · HTTP 504",
        "09:31 · Gewacht: minuutbudget (4 min)",
        "09:30 · Aangeleverd · token erp",
    ]


def test_a_fault_of_our_own_is_told_in_words(beheerder, clock):
    with pooled_connection():
        SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
        [message_id] = Message.submit([new_message()], clock())
        attempt = Attempt(at=clock().isoformat(), outcome="fault", duration_ms=1)
        later = clock() + timedelta(hours=1)
        sending(message_id).defer(later, waiting_for="fault", now=clock(), attempt=attempt)
    assert "een fout van onszelf</p>" in re.sub(r"\s*·.*?</p>", "</p>", beheerder.look(f"/ui/messages/{message_id}"))
    assert any(one.startswith("Een fout van onszelf") for one in told(beheerder, message_id))


def test_everything_that_can_happen_has_words_in_both_languages(admin, beheerder, clock):
    with pooled_connection():
        [message_id] = Message.submit([new_message()], clock(), by="erp")
    for what in EVERYTHING:
        with pooled_connection():
            Message.update(attempt_log=line(Event(clock(), what))).where(Message.id == message_id).execute()
        english, dutch = told(admin, message_id)[0], told(beheerder, message_id)[0]
        assert english != dutch, what
        assert f"· {what}" not in english
