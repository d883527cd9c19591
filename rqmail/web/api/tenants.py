"""Tenants: through whom their mail leaves. Secrets go in and never come out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from flask import Blueprint
from pydantic import Field

from rqmail.administration.access import Scope
from rqmail.insight.checked import last_check, last_checks
from rqmail.insight.jsonable import as_json
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel, Changes, CheckOf, Done, LeftBehindOf, Limit, Line, Pause
from rqmail.web.api.standing import SenderNow
from rqmail.web.context import application, changes

blueprint = Blueprint("tenants", __name__, url_prefix="/admin/tenants")

_TAG = "Tenants"

ProviderName = Literal["microsoft-graph", "sendgrid", "default"]
Secret = Annotated[str, Field(max_length=4096, json_schema_extra={"writeOnly": True})]


class Tenant(ApiModel):
    """A tenant's mail setting; of its secrets only whether they are set."""

    key: str
    provider: ProviderName
    address: str | None
    graph_tenant_id: str | None
    graph_client_id: str | None
    has_graph_client_secret: bool
    sendgrid_from: str | None
    has_sendgrid_api_key: bool
    rate_limit_per_minute: int | None
    rate_limit_recipients_per_day: int | None
    paused_until: datetime | None
    pause_reason: str | None
    paused_by: str | None
    created_on: datetime
    changed_on: datetime
    #: What its provider said about it when it was last asked; left out by operations that do not ask.
    check: CheckOf | None = None


class ChangedTenant(Tenant):
    """A tenant's mail setting as it is after a change, and what still depends on what it was before."""

    left_behind: LeftBehindOf


class Tenants(ApiModel):
    """All tenants' mail settings, by key."""

    tenants: list[Tenant]


class TenantChanges(Changes):
    """What to change: a field left out keeps its value, null clears it. The two secrets are never shown again."""

    provider: ProviderName = "default"
    address: Line | None = None
    graph_tenant_id: Line | None = None
    graph_client_id: Line | None = None
    graph_client_secret: Secret | None = None
    sendgrid_api_key: Secret | None = None
    sendgrid_from: Line | None = None
    #: Of the mailbox it sends from through Graph; null is the default.
    rate_limit_per_minute: Limit | None = None
    rate_limit_recipients_per_day: Limit | None = None


class NewTenant(TenantChanges):
    """A tenant's mail setting to add."""

    key: Line


@blueprint.get("")
@operation(Scope.READ, _TAG, Tenants)
def list_tenants() -> Any:
    """List all tenants' mail settings."""
    checks = last_checks()
    return {
        "tenants": [
            as_json(view) | {"check": as_json(checks.get(f"tenant:{view.key}"))} for view in application().tenants.all()
        ]
    }


@blueprint.post("")
@operation(Scope.ADMIN, _TAG, Tenant, 409, status=201)
def add_tenant(json: NewTenant) -> Any:
    """Add a tenant's mail setting."""
    added = changes().add_tenant(**{"provider": json.provider} | json.given())
    return as_json(added) | {"check": as_json(application().checks.check_saved(f"tenant:{added.key}"))}, 201


@blueprint.get("/<key>")
@operation(Scope.READ, _TAG, Tenant, 404)
def show_tenant(key: str) -> Any:
    """Show one tenant's mail setting."""
    view = application().tenants.get(key)
    return as_json(view) | {"check": as_json(last_check(f"tenant:{key}"))}


@blueprint.put("/<key>")
@operation(Scope.ADMIN, _TAG, ChangedTenant, 404, 409)
def set_tenant(key: str, json: TenantChanges) -> Any:
    """Change a tenant's mail setting; a field that is left out keeps its value."""
    changed = changes().set_tenant(key, **json.given())
    left, check = changes().left_behind(f"tenant:{key}"), application().checks.check_saved(f"tenant:{key}")
    return as_json(changed) | {"leftBehind": as_json(left), "check": as_json(check)}


@blueprint.delete("/<key>")
@operation(Scope.ADMIN, _TAG, Done, 404, 409)
def delete_tenant(key: str) -> Any:
    """Remove a tenant's mail setting; refused while mail of it waits or needs a decision."""
    changes().delete_tenant(key)
    return {"done": True}


@blueprint.get("/<key>/budget")
@operation(Scope.READ, _TAG, SenderNow, 404)
def show_tenant_budget(key: str) -> Any:
    """Show how a tenant's mail stands, and its budget where it sends through Microsoft Graph."""
    return as_json(application().overview.tenant(key))


@blueprint.post("/<key>/check")
@operation(Scope.ADMIN, _TAG, CheckOf, 404)
def check_tenant(key: str) -> Any:
    """Ask a tenant's provider whether it would send; no mail is sent."""
    application().tenants.get(key)
    return as_json(application().checks.check(f"tenant:{key}"))


@blueprint.post("/<key>/pause")
@operation(Scope.ADMIN, _TAG, Tenant, 404)
def pause_tenant(key: str, json: Pause) -> Any:
    """Send nothing of a tenant's mail for a while, or until it is resumed."""
    duration = None if json.duration_seconds is None else timedelta(seconds=json.duration_seconds)
    return as_json(changes().pause_tenant(key, json.reason, duration))


@blueprint.post("/<key>/resume")
@operation(Scope.ADMIN, _TAG, Tenant, 404)
def resume_tenant(key: str) -> Any:
    """End a pause: a person's, or one the provider's answers brought about."""
    return as_json(changes().resume_tenant(key))
