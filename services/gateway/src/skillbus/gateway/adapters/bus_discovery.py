"""Discovery of the services on the bus, by the NATS services API (NATS ADR-32)."""

import asyncio
from datetime import datetime
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from pydantic import ValidationError

from skillbus.contracts.catalogue import SERVICES
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Message
from skillbus.gateway.domain.ports import ServiceInstance

_SUBJECT: Final = "$SRV.STATS"
_PREFIX: Final = "skillbus-"
_WAIT_S: Final = 1.0
_QUIET_S: Final = 0.15
"""Silence after an answer that counts as the end: nobody knows how many instances there are."""


class _ServiceStats(Message):
    """Fields of an answer that are read."""

    name: str
    version: str
    started: datetime


class BusDiscovery:
    """Implements `ServiceDiscovery`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_instances(self) -> tuple[ServiceInstance, ...]:
        """Implement `ServiceDiscovery`. Services of others that share the bus are left out."""
        if not self._client.is_connected:
            raise RequestError(ErrorCode.UNAVAILABLE, "The bus is not connected.")
        inbox = self._client.new_inbox()
        found: list[ServiceInstance] = []
        clock = asyncio.get_running_loop().time
        until = clock() + _WAIT_S
        try:
            answers = await self._client.subscribe(inbox)
            try:
                await self._client.publish(_SUBJECT, reply=inbox)
                while (left_s := until - clock()) > 0:
                    answer = await answers.next_msg(timeout=min(left_s, _QUIET_S) if found else left_s)
                    if (instance := _parse_answer(answer)) is not None:
                        found.append(instance)
            except NatsTimeoutError:
                pass
            finally:
                await answers.unsubscribe()
        except NatsError as error:
            raise RequestError(ErrorCode.UNAVAILABLE, f"The bus is not available: {error}") from error
        return tuple(found)


def _parse_answer(answer: Msg) -> ServiceInstance | None:
    try:
        stats = _ServiceStats.model_validate_json(answer.data)
    except ValidationError:
        return None
    service = stats.name.removeprefix(_PREFIX)
    return ServiceInstance(service, stats.version, stats.started) if service in SERVICES else None
