"""API keys: make, list and revoke."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Request, Response

from skillbus.common.audit_log.recorder import ActRecorder
from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.gateway.api_keys import (
    KEY_ACTS,
    ApiKeyCreated,
    ApiKeyId,
    ApiKeyRevoked,
    ApiKeysListed,
    CreateApiKey,
    RevokeApiKey,
    Role,
)
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.service.documented_router import DocumentedRouter

_KEYS: Final = "/api/keys"
_EXAMPLE: Final[dict[str, object]] = {
    "label": "build server",
    "role": "runner",
    "projects": ["default"],
    "expires_in_s": 2_592_000,
}
KeyIdInPath = Annotated[ApiKeyId, Path()]


@dataclass(frozen=True, slots=True)
class ApiKeyRoutes:
    """Handlers of API keys."""

    registry: KeyRegistry
    recorder: ActRecorder

    async def create_api_key(self, body: CreateApiKey, request: Request, response: Response) -> ApiKeyCreated:
        """Make an API key. `key` is its text, which is shown only in this reply.

        An administrator of some projects makes keys for these projects only, and nobody gives a role above their own.
        A key ends with the key that made it at the latest.
        """

        async def create(asked: CreateApiKey) -> ApiKeyCreated:
            return await self.registry.create_key(asked, get_caller(request.scope))

        created = await self.recorder.carry_out("create_api_key", KEY_ACTS["create_api_key"], body, create)
        response.headers["Location"] = f"{_KEYS}/{created.id}"
        response.headers["Cache-Control"] = "no-store"
        return created

    async def list_api_keys(self, request: Request, response: Response) -> ApiKeysListed:
        """List the keys that the caller may revoke, newest first, with their last use. No reply has their text."""
        response.headers["Cache-Control"] = "no-store"
        return await self.registry.list_keys(get_caller(request.scope))

    async def revoke_api_key(self, key_id: KeyIdInPath, request: Request) -> ApiKeyRevoked:
        """Revoke a key and all keys that it made. They are refused at once, and stay in the list for 30 days."""

        async def revoke(asked: RevokeApiKey) -> ApiKeyRevoked:
            return await self.registry.revoke_key(asked.id, get_caller(request.scope))

        asked = RevokeApiKey(id=key_id)
        return await self.recorder.carry_out("revoke_api_key", KEY_ACTS["revoke_api_key"], asked, revoke)


def add_api_key_routes(router: DocumentedRouter, routes: ApiKeyRoutes) -> None:
    """Add the routes of API keys."""
    created = (*ANY_REQUEST, ErrorCode.CONFLICT, ErrorCode.STORAGE_FULL)
    revoked = (*ANY_REQUEST, ErrorCode.NOT_FOUND)
    router.add("POST", _KEYS, Role.ADMIN, routes.create_api_key, created, status=201, example=_EXAMPLE)
    router.add("GET", _KEYS, Role.ADMIN, routes.list_api_keys, ANY_REQUEST)
    router.add("DELETE", f"{_KEYS}/{{key_id}}", Role.ADMIN, routes.revoke_api_key, revoked)
