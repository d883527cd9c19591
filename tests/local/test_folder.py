"""The folder of a local run: one run at a time, keys that stay and that nobody else may read."""

import stat

import pytest

from rqmail.errors import ConflictError
from rqmail.local.folder import RunFolder


def test_a_second_run_is_refused_while_the_first_one_runs(tmp_path):
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    with first.locked(), pytest.raises(ConflictError, match="in use by another"), second.locked():
        pass
    with RunFolder(tmp_path).locked():
        pass


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path):
    secret = RunFolder(tmp_path).secret("secret-key")
    assert RunFolder(tmp_path).secret("secret-key") == secret
    assert len(secret) >= 32
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600


def test_another_terminal_joins_in_with_one_file(tmp_path):
    file = RunFolder(tmp_path).write_environment({"RQMAIL_SECRET_KEY": "it's $secret"})
    assert file.read_text() == "RQMAIL_SECRET_KEY='it'\"'\"'s $secret'\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
