"""The OpenAPI document: what each operation takes and answers, checked while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from spectree import Response, SecurityScheme, SpecTree
from spectree.model_adapter.pydantic_adapter import PydanticModelAdapter
from spectree.models import SecureType, SecuritySchemeData
from spectree.plugins.flask_plugin import FlaskPlugin

from rqmail import __version__
from rqmail.administration.access import Scope
from rqmail.web.api.refusals import refusal
from rqmail.web.api.schema import ApiModel, Wrong
from rqmail.web.auth import require
from rqmail.web.uploads import MIME

_V = TypeVar("_V", bound=Callable[..., Any])

_DESCRIPTION = """\
Hand mail in, see where it stands, and decide how much each mailbox may send.

Every request carries `Authorization: Bearer TOKEN`. A token has one or more scopes: `send` hands mail in, `read` looks
at everything, `admin` may do all of it. Bodies are JSON; a field that is not known is refused. Moments are ISO 8601
with their time zone and are answered in UTC. What is wrong with a request is answered as `error`, in words, and by
field in `fieldErrors`.
"""


def _refuse(_request: Any, _response: Any, error: Exception | None, _instance: Any, _adapter: Any) -> None:
    if isinstance(error, ValidationError):
        raise refusal(error)


class _Plugin(FlaskPlugin):
    """Leaves a body that is neither JSON nor a form to its view."""

    def request_validation(self, request: Any, query: Any, json: Any, form: Any, headers: Any, cookies: Any) -> None:
        if request.mimetype == MIME:
            json = form = None
        super().request_validation(request, query, json, form, headers, cookies)  # type: ignore[no-untyped-call]


class _Spec(SpecTree):
    """Names a mail in MIME form among the bodies that are taken, which the library has no place for."""

    def _generate_spec(self) -> dict[str, Any]:
        document = super()._generate_spec()
        body = document["paths"]["/messages"]["post"]["requestBody"]
        body["content"][MIME] = {"schema": {"type": "string", "format": "binary"}}
        return document


class _Adapter(PydanticModelAdapter):
    """Leaves what is wrong to :func:`_refuse`: written as JSON here, an uploaded file in it could not be."""

    def validation_errors(self, _err: ValidationError) -> Any:
        return []


spec = _Spec(
    "flask",
    backend=_Plugin,
    model_adapter=_Adapter(),  # type: ignore[arg-type]  # its own adapter does not fit its protocol either
    title="rqmail",
    version=__version__,
    description=_DESCRIPTION,
    mode="strict",
    before=_refuse,
    validation_error_status=400,
    validation_error_model=Wrong,
    naming_strategy=lambda model: model.__name__,
    nested_naming_strategy=lambda _parent, child: child,
    security_schemes=[
        SecurityScheme(
            name="token",
            data=SecuritySchemeData(type=SecureType.HTTP, scheme="bearer", description="A token of rqmail."),
        )
    ],
    security={"token": []},
)


def operation(
    scope: Scope,
    tag: str,
    answer: type[ApiModel] | None,
    *refusals: int,
    status: int = 200,
    others: Mapping[int, type[ApiModel]] | None = None,
) -> Callable[[_V], _V]:
    """Describe a view: who may ask, what it answers when all is well, and with which statuses it refuses.

    ``others`` are answers of another kind, by status; without an ``answer`` it answers what is no JSON. Every operation
    may also refuse with 400, 401, 403, 429 and 503, and those that take a body with 413 and 415.
    """
    described: dict[str, Any] = {f"HTTP_{code}": Wrong for code in {400, 401, 403, 413, 415, 429, 503, *refusals}}
    described |= {f"HTTP_{code}": other for code, other in (others or {}).items()}
    described[f"HTTP_{status}"] = answer
    validated = spec.validate(resp=Response(**described), tags=(tag,), skip_validation=answer is None)

    def decorate(view: _V) -> _V:
        checked: _V = validated(view)
        return require(scope)(checked)

    return decorate
