"""The Entra endpoints an application talks to: discovery, tokens, keys."""

from __future__ import annotations

import uuid

from aiohttp import web

from rqmail.sandbox.breakage import break_answer
from rqmail.sandbox.calls import Handler
from rqmail.sandbox.faults import Fault
from rqmail.sandbox.people import PERSONAL_GRANTS
from rqmail.sandbox.state import SandboxState
from rqmail.sandbox.tokens import GRAPH_RESOURCES, TokenRefusal, check_client, check_tenant, check_token_request


class Entra:
    """Discovery and tokens of the sandbox's tenant."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the endpoints on their paths."""
        router.add_get("/common/discovery/instance", self._faulty("discovery", self.discover_instance))
        for version in ("/v2.0", ""):
            path = f"/{{tenant}}{version}/.well-known/openid-configuration"
            router.add_get(path, self._faulty("discovery", self.discover_tenant))
        router.add_post("/{tenant}/oauth2/v2.0/token", self._faulty("token", self.issue_token))
        router.add_get("/metadata/identity/oauth2/token", self._faulty("token", self.issue_to_machine))
        router.add_get("/{tenant}/discovery/v2.0/keys", self._faulty("discovery", self.list_keys))

    async def discover_instance(self, request: web.Request) -> web.Response:
        """``GET /common/discovery/instance``: where the tenant named in the question is described."""
        asked = request.query.get("authorization_endpoint", "")
        tenant = asked.removeprefix(self._state.origin).strip("/").partition("/")[0] or "common"
        host = request.host
        return web.json_response(
            {
                "tenant_discovery_endpoint": f"{self._state.origin}/{tenant}/v2.0/.well-known/openid-configuration",
                "api-version": "1.1",
                "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
            }
        )

    async def discover_tenant(self, request: web.Request) -> web.Response:
        """``GET /{tenant}/v2.0/.well-known/openid-configuration``."""
        tenant = request.match_info["tenant"]
        check_tenant(tenant, self._state.directory)
        base = f"{self._state.origin}/{self._state.directory.tenant_id}"
        return web.json_response(
            {
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
                "jwks_uri": f"{base}/discovery/v2.0/keys",
                "issuer": f"{base}/v2.0",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
                "response_types_supported": ["code", "id_token", "token"],
                "scopes_supported": ["openid", "profile", "email", "offline_access"],
                "subject_types_supported": ["pairwise"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "tenant_region_scope": "EU",
                "cloud_instance_name": request.host,
            }
        )

    async def list_keys(self, _request: web.Request) -> web.Response:
        """``GET /{tenant}/discovery/v2.0/keys``: what id tokens are signed with."""
        return web.json_response({"keys": [self._state.people.public_key()]})

    async def issue_token(self, request: web.Request) -> web.Response:
        """``POST /{tenant}/oauth2/v2.0/token``."""
        form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
        directory = self._state.directory
        endpoint = f"{self._state.origin}{request.path}"
        self._state.tokens.last_claims = form.get("claims")
        now = self._state.now().timestamp()
        check_client(form, request.match_info["tenant"], directory, endpoint)
        personal = {}
        if form.get("grant_type") in PERSONAL_GRANTS:
            personal = self._state.people.grant(
                form, directory, f"{self._state.origin}/{directory.tenant_id}/v2.0", now
            )
        else:
            check_token_request(form, directory)
        token = self._state.tokens.issue(directory, f"{self._state.origin}/{directory.tenant_id}/", now)
        lifetime = directory.token_lifetime_seconds
        granted = {"token_type": "Bearer", "expires_in": lifetime, "ext_expires_in": lifetime, "access_token": token}
        return web.json_response(
            granted | personal,
            headers={"Cache-Control": "no-store", "Pragma": "no-cache"},
        )

    async def issue_to_machine(self, request: web.Request) -> web.Response:
        """``GET /metadata/identity/oauth2/token``: what a machine in Azure is given for its managed identity."""
        directory, asked = self._state.directory, request.query.get("client_id", "")
        if request.headers.get("Metadata") != "true" or request.query.get("resource") not in GRAPH_RESOURCES:
            return web.json_response({"error": "invalid_request", "error_description": "Bad request"}, status=400)
        if asked not in directory.managed_identities:
            told = {"error": "invalid_request", "error_description": "Identity not found"}
            return web.json_response(told, status=400)
        issuer = f"{self._state.origin}/{directory.tenant_id}/"
        token = self._state.tokens.issue(directory, issuer, self._state.now().timestamp())
        lives = str(directory.token_lifetime_seconds)
        resource = request.query["resource"]
        return web.json_response(
            {"access_token": token, "expires_in": lives, "resource": resource, "token_type": "Bearer"}
        )

    def _faulty(self, target: str, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            fault = self._state.faults.pick(target, target)
            try:
                if fault is None or fault.accepts:
                    response = await handler(request)
                    if fault is None:
                        return response
                else:
                    await request.read()
                return await break_answer(fault, request, self._fault_answer, self._state.origin)
            except TokenRefusal as refusal:
                self._state.tokens.refused += 1
                return self._refuse(refusal)

        return handle

    def _fault_answer(self, fault: Fault) -> web.Response:
        error = fault.code or ("temporarily_unavailable" if fault.status >= 500 else "invalid_request")
        refusal = TokenRefusal(fault.status, error, 90033, fault.message or "A transient error has occurred.")
        response = self._refuse(refusal)
        response.headers.update(fault.headers)
        return response

    def _refuse(self, refusal: TokenRefusal) -> web.Response:
        moment = self._state.now().strftime("%Y-%m-%d %H:%M:%SZ")
        trace, correlation = str(uuid.uuid4()), str(uuid.uuid4())
        return web.json_response(
            {
                "error": refusal.error,
                "error_description": f"AADSTS{refusal.number}: {refusal.message} Trace ID: {trace} "
                f"Correlation ID: {correlation} Timestamp: {moment}",
                "error_codes": [refusal.number],
                "timestamp": moment,
                "trace_id": trace,
                "correlation_id": correlation,
                "error_uri": f"{self._state.origin}/error?code={refusal.number}",
            },
            status=refusal.status,
            headers={"x-ms-request-id": trace},
        )
