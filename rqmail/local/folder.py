"""The folder of a local run: one run at a time, keys that stay, a log for each process."""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rqmail.errors import ConflictError


class RunFolder:
    """Everything a local run keeps; only its owner may read it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.path.mkdir(parents=True, exist_ok=True)
        for name in ("log", "valkey", "sandbox"):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process; raises ``ConflictError`` while another run has it."""
        descriptor = os.open(self.path / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
                raise ConflictError(f"{self.path} is in use by another `rqmail run` (process {holder})") from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def secret(self, name: str) -> str:
        """Answer a secret that is made once and kept."""
        file = self.path / name
        if not file.exists():
            self._write_private(file, secrets.token_urlsafe(32))
        return file.read_text(encoding="ascii").strip()

    def write_environment(self, variables: Mapping[str, str]) -> Path:
        """Write the settings another terminal needs, as a file for the shell."""
        file = self.path / "env"
        self._write_private(file, "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()))
        return file

    def log(self, name: str) -> Path:
        """Answer the log file of a process."""
        return self.path / "log" / f"{name}.log"

    @staticmethod
    def _write_private(file: Path, text: str) -> None:
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
