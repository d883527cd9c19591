"""What a message carries beside its text: attachments, kept once per content, and the fields few messages have."""

from typing import Any

import peewee

TABLES = """
CREATE TABLE attachment_content (
    sha256 VARCHAR(64) NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    place TEXT,
    kept_on {moment} NOT NULL
);
CREATE TABLE attachment_piece (
    sha256 VARCHAR(64) NOT NULL REFERENCES attachment_content (sha256) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    bytes {blob} NOT NULL,
    PRIMARY KEY (sha256, number)
);
CREATE TABLE message_attachment (
    message_id VARCHAR(36) NOT NULL REFERENCES message (id) ON DELETE CASCADE,
    position SMALLINT NOT NULL,
    name TEXT NOT NULL,
    content_type VARCHAR(255) NOT NULL,
    size BIGINT NOT NULL,
    sha256 VARCHAR(64) NOT NULL REFERENCES attachment_content (sha256),
    is_inline BOOLEAN NOT NULL,
    content_id VARCHAR(255),
    PRIMARY KEY (message_id, position)
);
CREATE INDEX message_attachment_content ON message_attachment (sha256);
CREATE INDEX attachment_content_kept ON attachment_content (kept_on);
ALTER TABLE message_content ADD COLUMN extras TEXT;
ALTER TABLE system_mailbox ADD COLUMN max_message_bytes BIGINT CHECK (max_message_bytes > 0)
"""


def up(_migrator: Any, db: Any) -> None:
    postgresql = isinstance(db, peewee.PostgresqlDatabase)
    kinds = {"moment": "TIMESTAMPTZ", "blob": "BYTEA"} if postgresql else {"moment": "TEXT", "blob": "BLOB"}
    for statement in TABLES.format(**kinds).split(";"):
        db.execute_sql(statement)
    if postgresql:  # files are mostly packed already: trying again costs more than it saves
        db.execute_sql("ALTER TABLE attachment_piece ALTER COLUMN bytes SET STORAGE EXTERNAL")
