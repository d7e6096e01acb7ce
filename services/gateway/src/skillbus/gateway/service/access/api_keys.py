"""API keys: make, list and revoke."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Request, Response

from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.gateway.api_keys import (
    ApiKeyCreated,
    ApiKeyId,
    ApiKeyRevoked,
    ApiKeysListed,
    CreateApiKey,
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

    async def create_api_key(self, body: CreateApiKey, request: Request, response: Response) -> ApiKeyCreated:
        """Make an API key. `key` is its text, which is shown only in this reply.

        An administrator of some projects makes keys for these projects only, and nobody gives a role above their own.
        A key ends with the key that made it at the latest.
        """
        created = await self.registry.create_key(body, get_caller(request.scope))
        response.headers["Location"] = f"{_KEYS}/{created.id}"
        response.headers["Cache-Control"] = "no-store"
        return created

    async def list_api_keys(self, request: Request, response: Response) -> ApiKeysListed:
        """List the keys that the caller may revoke, newest first, with their last use. No reply has their text."""
        response.headers["Cache-Control"] = "no-store"
        return await self.registry.list_keys(get_caller(request.scope))

    async def revoke_api_key(self, key_id: KeyIdInPath, request: Request) -> ApiKeyRevoked:
        """Revoke a key and all keys that it made. They are refused at once, and stay in the list for 30 days."""
        return await self.registry.revoke_key(key_id, get_caller(request.scope))


def add_api_key_routes(router: DocumentedRouter, routes: ApiKeyRoutes) -> None:
    """Add the routes of API keys."""
    created = (*ANY_REQUEST, ErrorCode.CONFLICT, ErrorCode.STORAGE_FULL)
    revoked = (*ANY_REQUEST, ErrorCode.NOT_FOUND)
    router.add("POST", _KEYS, Role.ADMIN, routes.create_api_key, created, status=201, example=_EXAMPLE)
    router.add("GET", _KEYS, Role.ADMIN, routes.list_api_keys, ANY_REQUEST)
    router.add("DELETE", f"{_KEYS}/{{key_id}}", Role.ADMIN, routes.revoke_api_key, revoked)
