"""Bytes of attached files: kept once, read in pieces, removed when nothing refers to them, never under a message."""

from __future__ import annotations

import hashlib
import io
import os
from datetime import timedelta

import pytest

from rqmail.content_store import KEPT_UNREFERENCED, ContentStore
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.intake.attachments import Attachment, Reader
from rqmail.models import attachments
from rqmail.models.attachments import PIECE_BYTES, AttachmentContent, AttachmentPiece, MessageAttachment
from rqmail.models.message import Message
from support.messages import new_message, submitted


@pytest.fixture(params=["database", "folder"])
def store(request, database, clock, tmp_path):
    return ContentStore(clock, None if request.param == "database" else f"file://{tmp_path}/files")


def read(*contents):
    return [Reader().read(Attachment(f"{number}.bin", content)) for number, content in enumerate(contents)]


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 9 * PIECE_BYTES + 7])
def test_a_content_is_read_back_as_it_was_and_from_anywhere(store, size):
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    [file] = read(content)
    store.keep([file])
    with store.open(file.sha256) as opened:
        assert opened.read() == content
        opened.seek(size // 2)
        assert opened.read(10) == content[size // 2 : size // 2 + 10]


def test_a_content_in_the_database_is_read_some_pieces_at_a_time_a_small_one_as_it_is_opened(
    database, clock, monkeypatch
):
    asked = []
    run = attachments.rows_of_bytes
    monkeypatch.setattr(attachments, "rows_of_bytes", lambda *one: asked.append(one) or run(*one))
    store = ContentStore(clock)
    small, large = os.urandom(20_000), os.urandom(9 * PIECE_BYTES)
    files = read(small, large)
    store.keep(files)
    for file, content, statements in zip(files, (small, large), (1, 3), strict=True):
        asked.clear()
        with store.open(file.sha256) as opened:
            assert opened.read(len(content)) == content
        assert len(asked) == statements


def test_a_content_of_which_a_piece_is_missing_is_not_read_as_if_it_were_whole(database, clock):
    store = ContentStore(clock)
    [file] = read(os.urandom(9 * PIECE_BYTES))
    store.keep([file])
    AttachmentPiece.delete().where(AttachmentPiece.number == 3).execute()
    with store.open(file.sha256) as opened, pytest.raises(NotFoundError):
        opened.read(9 * PIECE_BYTES)


def test_ten_thousand_mails_with_one_file_store_it_once(store, clock):
    [file] = read(b"x" * (PIECE_BYTES + 1))
    for _ in range(10):
        store.keep([file])
        submitted(*(new_message(attachments=(file,)) for _ in range(1000)))
    assert (AttachmentContent.select().count(), MessageAttachment.select().count()) == (1, 10_000)
    assert AttachmentPiece.select().count() in {0, 2}


def test_what_no_message_refers_to_is_removed_after_a_while_and_nothing_else(store, clock, tmp_path):
    first, second = read(b"first", b"second")
    store.keep([first, second])
    [message_id] = submitted(new_message(attachments=(first,)))
    clock.advance(seconds=KEPT_UNREFERENCED.total_seconds() - 1)
    assert store.purge() == 0
    clock.advance(seconds=2)
    assert store.purge() == 1
    with pytest.raises(NotFoundError):
        store.open(second.sha256)
    with store.open(first.sha256) as opened:
        assert opened.read() == b"first"
    Message.delete().where(Message.id == message_id).execute()
    assert store.purge() == 1
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []


def test_a_content_that_just_came_in_again_is_kept_for_the_message_that_is_about_to_be_stored(store, clock):
    [file] = read(b"logo")
    store.keep([file])
    clock.advance(seconds=(KEPT_UNREFERENCED + timedelta(days=1)).total_seconds())
    store.keep([file])
    assert store.purge() == 0
    submitted(new_message(attachments=(file,)))
    with store.open(file.sha256) as opened:
        assert opened.read() == b"logo"


def test_a_file_that_changed_after_it_was_checked_is_refused_and_leaves_nothing(store, tmp_path):
    path = tmp_path / "invoice.pdf"
    path.write_bytes(b"%PDF one")
    file = Reader().read(Attachment("invoice.pdf", path))
    path.write_bytes(b"%PDF two, longer")
    with pytest.raises(InvalidInputError, match="does not change"):
        store.keep([file])
    assert AttachmentContent.select().count() == 0
    with pytest.raises(NotFoundError):
        store.open(hashlib.sha256(b"%PDF one").hexdigest())


def test_an_open_file_is_read_from_where_it_stands_and_left_open(store):
    opened = io.BytesIO(b"skipped, then taken")
    opened.seek(9)
    file = Reader().read(Attachment("part.txt", opened))
    store.keep([file])
    with store.open(file.sha256) as kept:
        assert kept.read() == b"then taken"
    assert not opened.closed


def test_a_file_is_on_the_disk_before_its_row_says_that_it_is_kept(database, clock, tmp_path, monkeypatch):
    known_when_synced = []

    def sync(descriptor):
        known_when_synced.append((os.fstat(descriptor).st_size, AttachmentContent.select().count()))

    monkeypatch.setattr(os, "fsync", sync)
    [file] = read(b"x" * (PIECE_BYTES + 1))
    ContentStore(clock, f"file://{tmp_path}/files").keep([file])
    assert known_when_synced == [(PIECE_BYTES + 1, 0)]
    assert AttachmentContent.select().count() == 1
