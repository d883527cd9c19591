"""What whoever hands mail in is told though it is taken: files that are blocked, addresses twice, what a mail needs."""

from __future__ import annotations

import io

import pytest

from rqmail import Attachment
from rqmail.content_store import ContentStore
from rqmail.intake.draft import Draft, Intake
from rqmail.intake.files import Reading
from rqmail.intake.importing import Imports
from rqmail.models.mailbox import SenderCheck, SystemMailbox, TenantMailSetting

GOOD = {"sender": "mailbox:news", "subject": "Hallo", "to": "jan@x.nl", "text": "Dag Jan"}

#: As base64 just above and just below 4 MB.
LARGE = Attachment("large.pdf", b"x" * 3_150_000)
FITS = Attachment("fits.pdf", b"x" * 3_140_000)


@pytest.fixture
def intake(database, clock) -> Intake:
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return Intake(clock, lambda: None, contents=ContentStore(clock))


def notices(intake, *files, **fields):
    return [(one.code, one.text) for one in intake.checks().check(Draft(**(GOOD | fields), attachments=files)).notices]


@pytest.mark.parametrize(
    ("known", "code", "said"),
    [
        (None, "needs-read-write", "which needs the app's permission Mail.ReadWrite"),
        (False, "lacks-read-write", "it did not have it when it was last asked, and the mail waits until it has"),
    ],
)
def test_a_mail_that_goes_up_in_parts_is_told_to_need_a_permission(intake, clock, known, code, said):
    if known is not None:
        SenderCheck.create(sender="mailbox:news", checked_on=clock(), may_write=known, outcome="answered")
    [(told, text)] = notices(intake, LARGE)
    assert told == code
    assert text.startswith("a mail of 4,2")
    assert said in text


def test_a_mail_that_fits_one_request_or_whose_app_may_write_or_that_is_not_graphs_is_told_nothing(intake, clock):
    assert notices(intake, FITS) == []
    TenantMailSetting.create(key="acme", provider="sendgrid", created_on=clock(), changed_on=clock())
    assert notices(intake, LARGE, sender="tenant:acme") == []
    SenderCheck.create(sender="mailbox:news", checked_on=clock(), may_write=True, outcome="answered")
    assert notices(intake, LARGE) == []


def test_an_import_tells_by_row_what_one_should_know_and_remembers_it(intake, clock, tmp_path):
    (tmp_path / "run.exe").write_bytes(b"x")
    rows = [f"a{n}@x.nl;A{n}@X.nl,s,t,run.exe" for n in range(12)]
    text = "to,subject,text,attachments\nb@x.nl,s,t,\n" + "\n".join(rows)
    imports = Imports(clock, intake)
    report = imports.take(io.BytesIO(text.encode()), "mailbox:news", Reading(attachments_dir=tmp_path), errors_told=3)
    assert (report.stored, report.notices) == (13, 24)
    assert [(one.row, one.field, one.code, one.about) for one in report.notice_rows] == [
        (3, "to", "named-twice", "a0@x.nl"),
        (3, "attachments", "blocked-type", "run.exe"),
        (4, "to", "named-twice", "a1@x.nl"),
    ]
    remembered = imports.find(report.import_id).report
    assert (remembered.notices, len(remembered.notice_rows)) == (24, 24)
    assert remembered.notice_rows[0].text == "a0@x.nl was named twice: kept in to, left out of to"
