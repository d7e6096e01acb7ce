"""The processes that are killed: nats-server, the learner, and the index (indexer, retriever and their store).

A process that ends is started again, as a supervisor of services would do. The embedder runs in the test's process: it
has no state that could be lost.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.testing import eventually
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import LIST_INDEXES
from skillbus.contracts.learner import HEALTH
from skillbus.contracts.message import Empty
from skillbus.embedder.domain.model import ModelSpec
from skillbus.embedder.wiring import open_embedder
from skillbus.standalone.nats_server import NatsServer, open_nats_server

from ...models import OnlyModel, embedder_in
from ...programs import Program, open_program

INDEX_PROGRAM = Path(__file__).with_name("index_process.py")
START_S = 60.0
"""Longest start of a process on a busy machine."""


class Victim(StrEnum):
    """A process that is killed."""

    NATS = "nats"
    LEARNER = "learner"
    INDEX = "index"


class LengthModel:
    """A model of text lengths. It does not help a search, so that words decide."""

    spec = ModelSpec("test", "lengths", "1", "none", 2, 2048, 4096, False)

    def load(self) -> None:
        return

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        angles = np.array([len(text) % 7 for text in texts], dtype=np.float32) / 7
        unit: NDArray[np.float32] = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        return unit


@dataclass
class Service:
    """A process that is started again whenever it ends."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    output: Path
    ended_alone: int = 0
    """Number of times it ended without being killed."""
    _process: Program | None = None
    _killed: bool = False

    async def keep(self) -> None:
        while True:
            started = open_program(*self.arguments, output=self.output, environment=self.environment)
            async with started as self._process:
                self._killed = False
                await self._process.wait()
            self.ended_alone += not self._killed

    def kill(self) -> bool:
        """Kill the process; return False if there is none."""
        if self._process is None or self._process.returncode is not None or self._killed:
            return False
        self._killed = True
        self._process.kill()
        return True


@dataclass(frozen=True, slots=True)
class World:
    """The processes of a knowledge base."""

    bus: Bus
    server: NatsServer
    services: dict[Victim, Service]
    folder: Path
    killed: dict[Victim, int] = field(default_factory=lambda: dict.fromkeys(Victim, 0))

    @property
    def database(self) -> str:
        return f"sqlite:///{self.folder / 'knowledge.db'}"

    async def kill(self, victim: Victim) -> None:
        """Kill a process without a warning. It is started again."""
        if victim is Victim.NATS:
            if (pid := self.server.pid) is None:
                return
            os.kill(pid, signal.SIGKILL)
        elif not self.services[victim].kill():
            return
        self.killed[victim] += 1

    async def until_ready(self) -> None:
        """Wait until learner and index answer."""
        for ready in (self._learner_answers, self._index_answers):
            await eventually(ready, bool, START_S)

    async def _learner_answers(self) -> bool:
        return await _answers(lambda: self.bus.caller.call(HEALTH, Empty(), timeout_s=1))

    async def _index_answers(self) -> bool:
        return await _answers(lambda: self.bus.caller.call(LIST_INDEXES, Empty(), timeout_s=1))


async def _answers(ask: Callable[[], Awaitable[object]]) -> bool:
    try:
        await ask()
    except RequestError:
        return False
    return True


@asynccontextmanager
async def open_world(folder: Path, wait_indexed_s: float) -> AsyncGenerator[World]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_nats_server(folder / "nats"))
        address = server.address
        settings = BusSettings(url=address.url, token=SecretStr(address.token))
        bus = await stack.enter_async_context(open_bus(settings, "test", CollectorRegistry()))
        await provision(bus.jetstream)
        await stack.enter_async_context(open_embedder(bus, embedder_in(folder), OnlyModel(LengthModel())))
        environment = {
            "SKILLBUS_NATS_URL": address.url,
            "SKILLBUS_NATS_TOKEN": address.token,
            "SKILLBUS_LEARNER_DATA": str(folder),
            "SKILLBUS_LEARNER_WAIT_INDEXED_S": str(wait_indexed_s),
            "SKILLBUS_LOG_LEVEL": "WARNING",
        }
        programs = {
            Victim.LEARNER: ("-m", "skillbus.learner"),
            Victim.INDEX: (str(INDEX_PROGRAM), str(folder)),
        }
        services = {
            victim: Service(program, environment, folder / f"{victim}.log") for victim, program in programs.items()
        }
        keeping = [asyncio.create_task(service.keep()) for service in services.values()]
        try:
            world = World(bus, server, services, folder)
            await world.until_ready()
            yield world
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
