"""What it means when no answer came: certainly not sent, or nobody knows."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

from requests.exceptions import InvalidProxyURL, InvalidSchema, InvalidURL
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, ProxyError, ReadTimeoutError

from rqmail.errors import MailOutcomeUnknownError, MailTransientError
from rqmail.mailers.http.public import PrivateAddressError

#: With one of these in the chain of causes, not a byte of the request was written.
_BEFORE_WRITING = (
    ConnectTimeoutError,
    ProxyError,
    ssl.SSLCertVerificationError,
    InvalidURL,
    InvalidProxyURL,
    InvalidSchema,
)


def error_for_exception(error: BaseException, provider: str) -> MailTransientError | MailOutcomeUnknownError:
    """Answer ``MailTransientError`` if the request was certainly not sent, else ``MailOutcomeUnknownError``.

    The libraries' own texts are left out, since they quote addresses.
    """
    chain = list(_causes(error))
    if any(isinstance(link, _BEFORE_WRITING) for link in chain):
        return MailTransientError(f"Could not connect to {provider}: {_why_not_connected(chain)}. Nothing was sent.")
    if any(isinstance(link, ReadTimeoutError | TimeoutError) for link in chain):
        return MailOutcomeUnknownError(f"{provider} did not answer in time; the mail may have been accepted.")
    return MailOutcomeUnknownError(
        f"The connection to {provider} broke before an answer came ({type(chain[-1]).__name__}); "
        "the mail may have been accepted."
    )


def why_no_answer(error: BaseException) -> str:
    """Say in a few words why a request that may be repeated at will got no answer, without addresses."""
    chain = list(_causes(error))
    private = next((link for link in chain if isinstance(link, PrivateAddressError)), None)
    if private is not None:
        return str(private)
    if any(isinstance(link, _BEFORE_WRITING) for link in chain):
        return f"could not connect: {_why_not_connected(chain)}"
    if any(isinstance(link, ReadTimeoutError | TimeoutError) for link in chain):
        return "no answer in time"
    return f"the connection broke before an answer came ({type(chain[-1]).__name__})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk from the outermost exception to the first cause, through the wrappers of requests and urllib3."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        inner = getattr(link, "reason", None) or getattr(link, "original_error", None)
        wrapped = next((arg for arg in reversed(link.args) if isinstance(arg, BaseException)), None)
        # Never __context__: that may be an older failure which somebody was handling when this request went out.
        link = next((cause for cause in (inner, wrapped, link.__cause__) if isinstance(cause, BaseException)), None)


def _why_not_connected(chain: list[BaseException]) -> str:
    for link in chain:
        if isinstance(link, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({link.verify_message}); see RQMAIL_CA_BUNDLE"
        if isinstance(link, InvalidProxyURL | InvalidSchema | ProxyError) or "Tunnel connection failed" in str(link):
            return "the proxy is not usable or did not let us through; see HTTPS_PROXY"
        if isinstance(link, InvalidURL):
            return "the address or the certificate file it needs is not usable; see RQMAIL_CA_BUNDLE"
        if isinstance(link, NameResolutionError | socket.gaierror):
            return "its name cannot be resolved"
        if isinstance(link, ConnectionRefusedError):
            return "connection refused"
    if any(isinstance(link, TimeoutError) for link in chain) or type(chain[-1]) is ConnectTimeoutError:
        return "no connection within the timeout"
    return type(chain[-1]).__name__
