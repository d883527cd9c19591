"""What goes wrong, as an answer: JSON for programs, a page for people; decided here and nowhere else."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlencode

from flask import Flask, Response, jsonify, make_response, redirect, render_template, request, url_for
from flask_wtf.csrf import CSRFError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, SecurityError
from werkzeug.wrappers import Response as AnyResponse

from rqmail.administration.access import Scope
from rqmail.administration.fields import MAX_LIMIT
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError, RqmailError, SettingsError
from rqmail.logs import event_log
from rqmail.models.base import AWAY_ERRORS
from rqmail.text.scrubbing import scrubbed
from rqmail.web.context import for_programs

log = event_log(__name__)

#: The fields whose error text is part of the contract, word for word.
LIMIT_FIELDS = ("rateLimitPerMinute", "rateLimitRecipientsPerDay")


class UnauthenticatedError(RqmailError):
    """Nobody we know is asking: come back with a token, or sign in."""

    def __init__(self) -> None:
        super().__init__("A valid token is needed: Authorization: Bearer TOKEN")


class ForbiddenError(RqmailError):
    """The one who is asking is known and may not do this; ``scope`` is what the token lacks."""

    def __init__(self, scope: Scope | None) -> None:
        super().__init__(
            "The request came from another site." if scope is None else f"The token does not have the scope {scope}."
        )


class ForbiddenSenderError(ForbiddenError):
    """The token is bound to other mailboxes than this sender."""

    def __init__(self) -> None:
        RqmailError.__init__(self, "The token is bound to mailboxes, and this sender is none of them.")


class BoundError(ForbiddenError):
    """The token is bound to mailboxes, and what is asked for is not about these alone."""

    def __init__(self) -> None:
        RqmailError.__init__(self, "The token is bound to mailboxes, and this is not about these alone.")


class RefusedError(RqmailError):
    """The request as a whole cannot be answered: ``status`` is the HTTP status that says so."""

    def __init__(
        self,
        status: HTTPStatus,
        text: str,
        *,
        retry_after: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)


class FieldsError(RqmailError):
    """Fields of the request are wrong: ``fields`` says for each by name what would have been right."""

    def __init__(self, fields: dict[str, str]) -> None:
        field, text = next(iter(fields.items()))
        super().__init__(text if field in LIMIT_FIELDS else f"{field}: {text}")
        self.fields = fields


def install(app: Flask) -> None:
    """Turn every error into an answer."""
    app.register_error_handler(UnauthenticatedError, _unauthenticated)
    app.register_error_handler(ForbiddenError, lambda error: answer(HTTPStatus.FORBIDDEN, str(error)))
    app.register_error_handler(RefusedError, _refused)
    app.register_error_handler(FieldsError, _fields)
    app.register_error_handler(InvalidInputError, _invalid)
    app.register_error_handler(SettingsError, _unusable)
    app.register_error_handler(NotFoundError, lambda error: answer(HTTPStatus.NOT_FOUND, str(error)))
    app.register_error_handler(ConflictError, lambda error: answer(HTTPStatus.CONFLICT, str(error)))
    app.register_error_handler(CSRFError, lambda error: answer(HTTPStatus.FORBIDDEN, str(error.description)))
    for away in (*AWAY_ERRORS, RedisConnectionError, RedisTimeoutError):
        app.register_error_handler(away, _away)
    app.register_error_handler(SecurityError, _another_host)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unexpected)


def answer(
    status: HTTPStatus, text: str, *, fields: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> Response:
    """Say what is wrong, without secrets: ``{"error": …, "fieldErrors": …}`` to programs, a page to people."""
    text = scrubbed(text)
    fields = {name: scrubbed(wrong) for name, wrong in (fields or {}).items()}
    if for_programs():
        response = jsonify({"error": text, "fieldErrors": fields})
    else:
        response = make_response(
            render_template("error.html", status=int(status), phrase=status.phrase, text=text, fields=fields)
        )
    response.status_code = int(status)
    response.headers.update(headers or {})
    return response


def limit_text(field: str, *, is_too_large: bool = False) -> str:
    """Say in the words callers know that a limit is not a positive whole number, or that it is too large a one."""
    most = ", hoogstens " + f"{MAX_LIMIT:,}".replace(",", ".") if is_too_large else ""
    return f"{field} moet een positief geheel getal zijn{most}"


def _unauthenticated(error: UnauthenticatedError) -> AnyResponse:
    if not for_programs():
        wanted = request.full_path.rstrip("?") if request.method == "GET" else None
        return redirect(url_for("sessions.login_form") + ("?" + urlencode({"next": wanted}) if wanted else ""))
    return answer(HTTPStatus.UNAUTHORIZED, str(error), headers={"WWW-Authenticate": 'Bearer realm="rqmail"'})


def _refused(error: RefusedError) -> Response:
    return answer(error.status, str(error), headers=error.headers)


def _fields(error: FieldsError) -> Response:
    return answer(HTTPStatus.BAD_REQUEST, str(error), fields=error.fields)


def _invalid(error: InvalidInputError) -> Response:
    # Without the value: it may be long, and it is the caller's own.
    if error.field in LIMIT_FIELDS:
        text = limit_text(error.field, is_too_large=type(error.value) is int and error.value > MAX_LIMIT)
        return answer(HTTPStatus.BAD_REQUEST, text, fields={error.field: text})
    return answer(HTTPStatus.BAD_REQUEST, f"{error.field}: {error.allowed}", fields={error.field: error.allowed})


def _unusable(error: SettingsError) -> Response:
    """What was asked needs a setting that this installation does not have."""
    return answer(HTTPStatus.CONFLICT, f"{error.field}: {error.allowed}")


def _away(error: Exception) -> Response:
    log.error("web.away", path=request.path, err=type(error).__name__)
    return answer(
        HTTPStatus.SERVICE_UNAVAILABLE, "The database or Redis cannot be reached.", headers={"Retry-After": "5"}
    )


def _another_host(error: SecurityError) -> Response:
    # Not with a page of ours: no link can be made for a host that we do not answer to.
    text = error.description or "The host is not trusted."
    if for_programs():
        return answer(HTTPStatus.BAD_REQUEST, text)
    return Response(text + "\n", HTTPStatus.BAD_REQUEST, content_type="text/plain; charset=utf-8")


def _http(error: HTTPException) -> AnyResponse:
    if error.code is None or error.code < 400:
        return error.get_response()
    headers = {}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(error.valid_methods)
    return answer(HTTPStatus(error.code), error.description or HTTPStatus(error.code).phrase, headers=headers)


def _unexpected(error: Exception) -> Response:
    log.error("web.error", path=request.path, exc_info=error)
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong here; the log says what.")
