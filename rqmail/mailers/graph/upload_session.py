"""One large file on its way into a draft: in ranges, going on where it stopped, or begun again."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from rqmail.clock import Clock
from rqmail.errors import (
    MailboxUnavailableError,
    MailError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
)
from rqmail.logs import event_log
from rqmail.mailers.base import MailFile
from rqmail.mailers.graph.draft_calls import DraftCalls, certain, document_of
from rqmail.mailers.graph.errors import error_for_answer
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.message import encoded
from rqmail.mailers.graph.size import RANGE_BYTES
from rqmail.mailers.http.transport import Answer, slow_seconds
from rqmail.settings import LOOPBACK_HOSTS

log = event_log(__name__)

#: The session is not known, or not any more: the file has to be begun again, unless it has arrived.
_SESSION_GONE = frozenset({401, 403, 404, 410})

#: Failures in a row without a byte of progress, and beginnings of one file: then the mail waits for another time.
_MOST_FAILURES = 6
_MOST_BEGINNINGS = 3

#: Seconds to wait between two tries at most; whoever asks for more is given a pause of the whole mailbox.
_LONGEST_WAIT = 30.0

_FILES_ANSWER_LIMIT = 1024 * 1024


class FileUpload:
    """Uploads one file through upload sessions; no error of it tells the upload's address."""

    def __init__(
        self,
        http: GraphHttp,
        calls: DraftCalls,
        attachments_url: str,
        file: MailFile,
        hold: Callable[[float], None],
        clock: Clock,
        sleep: Callable[[float], None],
    ) -> None:
        self._http = http
        self._calls = calls
        self._attachments_url = attachments_url
        self._file = file
        self._hold = hold
        self._clock = clock
        self._sleep = sleep

    def run(self, attached: int) -> bool:
        """Upload the file to a draft with ``attached`` files; say whether it was begun more than once."""
        for beginning in range(_MOST_BEGINNINGS):
            session_url = self._open()
            if self._put_all(session_url):
                return beginning > 0
            # The answer to the last range may have been lost: then the session is over because the file is there.
            self._hold(0)
            if count_files(self._calls, self._attachments_url) > attached:
                return beginning > 0
            log.info("mail.upload.begunAgain", beginning=beginning + 1)
        raise MailTransientError(
            f"Microsoft Graph forgot an upload {_MOST_BEGINNINGS} times; nothing was sent, and it is tried again later"
        )

    def _open(self) -> str:
        """Open an upload session and answer its address."""
        item = {
            "attachmentType": "file",
            "name": self._file.name,
            "size": self._file.size,
            "contentType": self._file.content_type,
        }
        self._hold(0)
        url = f"{self._attachments_url}/createUploadSession"
        answer = self._calls.ask("open an upload", "POST", url, encoded({"AttachmentItem": item}))
        session_url = document_of(answer).get("uploadUrl")
        if not isinstance(session_url, str) or not _is_safe(session_url):
            raise MailTransientError("Microsoft Graph named no address to upload to; nothing was sent")
        return session_url

    def _put_all(self, session_url: str) -> bool:
        """Put range after range; ``False`` when the session is gone."""
        at, failures = 0, 0
        with self._file.open() as stream:
            while at < self._file.size:
                stream.seek(at)
                chunk = stream.read(RANGE_BYTES)
                if not chunk:
                    raise MailRejectedError(
                        "A file of the mail is shorter than when it was handed in; nothing was sent"
                    )
                answer, failure = self._ask("PUT", session_url, chunk, at)
                if answer is not None and answer.status == 201:
                    return True
                if answer is not None and answer.status in (200, 202):
                    expected = _next_expected(answer)
                    following = at + len(chunk) if expected is None else expected
                else:
                    if answer is not None and answer.status in _SESSION_GONE:
                        return False
                    self._sleep(self._wait_after(failure, failures))
                    asked = self._where(session_url)
                    if asked is None:
                        return False
                    following = at if asked < 0 else asked
                failures = 0 if following > at else failures + 1
                if failures >= _MOST_FAILURES:
                    raise failure or MailTransientError("An upload did not get on; nothing was sent")
                at = following
        return True

    def _where(self, session_url: str) -> int | None:
        """Ask where the next range has to begin; ``None`` when the session is gone, -1 when nobody answers."""
        answer, _ = self._ask("GET", session_url)
        if answer is None or answer.status in (408, 429) or answer.status >= 500:
            return -1
        return _next_expected(answer) if answer.status == 200 else None

    def _ask(
        self, method: str, session_url: str, chunk: bytes | None = None, at: int = 0
    ) -> tuple[Answer | None, MailError | None]:
        """Answer what the upload's server said, if it did, and what is wrong, if anything is."""
        headers = {"Accept": "application/json"}
        if chunk is not None:
            headers["Content-Type"] = "application/octet-stream"
            headers["Content-Range"] = f"bytes {at}-{at + len(chunk) - 1}/{self._file.size}"
        self._hold(2 * slow_seconds(len(chunk or b"")))
        try:
            answer = self._http.ask_upload_url(method, session_url, headers, chunk)
        except MailError as failure:
            return None, certain(failure, "take a part of a file")
        if answer.status in (200, 201, 202):
            return answer, None
        error = error_for_answer(answer.status, answer.headers, answer.body, self._clock())
        return answer, certain(error, "take a part of a file")

    @staticmethod
    def _wait_after(failure: MailError | None, failures: int) -> float:
        """Answer how long to wait before going on; raises what is no use to be waited for here."""
        if isinstance(failure, MailboxUnavailableError):
            raise failure
        asked = failure.retry_after if isinstance(failure, MailThrottledError) else None
        if asked is not None and asked > _LONGEST_WAIT and failure is not None:
            raise failure
        return asked or min(2.0**failures, _LONGEST_WAIT)


def count_files(calls: DraftCalls, attachments_url: str) -> int:
    """Answer how many files a draft has."""
    url = f"{attachments_url}?$select=id"
    document = document_of(calls.ask("show a draft's files", "GET", url, limit=_FILES_ANSWER_LIMIT))
    files = document.get("value")
    if not isinstance(files, list) or "@odata.nextLink" in document:
        raise MailTransientError("The list of a draft's files could not be read; nothing was sent")
    return len(files)


def _next_expected(answer: Answer) -> int | None:
    """Read where the next range begins: ``0-``, ``100-199``, or as Exchange has it, ``100``, under either spelling."""
    document = {name.lower(): value for name, value in document_of(answer).items()}
    ranges = document.get("nextexpectedranges")
    first = ranges[0] if isinstance(ranges, list) and ranges else None
    text = str(first).partition("-")[0].strip()
    return int(text) if text.isdecimal() and len(text) < 16 else None


def _is_safe(url: str) -> bool:
    """Say whether a file may be sent there: over TLS, or to this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS)
