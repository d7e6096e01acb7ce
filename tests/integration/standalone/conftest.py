"""skillbus as a process of its own, started as people start it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

WAIT_S = 40.0
"""For a process to import everything, start and be ready, on a busy machine. Less than the limit of a test."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process, and where its standard error goes."""

    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ended(self, within_s: float = 10.0) -> int:
        """The exit code; fails when it does not end in time."""
        async with asyncio.timeout(within_s):
            return await self.process.wait()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.ended()

    async def output(self) -> str:
        """What it wrote to standard output, once it has ended."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            return (await self.process.stdout.read()).decode()

    def errors(self) -> str:
        return self.log.read_text("utf-8")

    async def document(self) -> dict[str, str]:
        """The JSON document that `up --json` prints when it is ready."""
        assert self.process.stdout is not None
        lines: list[bytes] = []
        async with asyncio.timeout(WAIT_S):
            while line := await self.process.stdout.readline():
                lines.append(line)
                with suppress(json.JSONDecodeError):
                    document: dict[str, str] = json.loads(b"".join(lines))
                    return document
        raise AssertionError(f"it ended without being ready: {self.errors()}")


Start = Callable[..., Awaitable[Started]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncGenerator[Start]:
    """Starts `python -m <arguments>`; what still runs when the test is over is killed."""
    started: list[Started] = []

    async def begin(*arguments: str, environment: Mapping[str, str] | None = None) -> Started:
        log = tmp_path / f"stderr-{len(started)}"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SKILLBUS_")}
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**clean, **(environment or {})},
            )
        started.append(Started(process, log))
        return started[-1]

    yield begin
    for one in started:
        if one.process.returncode is None:
            one.process.kill()
            await one.ended()
        print(await one.output(), one.errors())  # noqa: T201 - pytest shows it with a failure


Up = Callable[..., Awaitable[Started]]


@pytest.fixture
def up(start: Start, tmp_path: Path) -> Up:
    """Starts `skillbus up` on a data directory."""

    async def begin(data: Path | None = None, *more: str) -> Started:
        where = str(data or tmp_path / "data")
        return await start("skillbus.cli", "up", "--data", where, "--http-port", "0", "--json", *more)

    return begin


def read_headers(data: Path) -> dict[str, str]:
    """The header with which the user of a data directory may do everything."""
    return {"Authorization": f"Bearer {json.loads((data / 'connection.json').read_text())['api_key']}"}


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
        yield client
