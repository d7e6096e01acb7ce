"""Accounts of a shared nats-server: as apart as servers of their own, and made in a third of the time."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from skillbus.common.background import bind_to_parent
from skillbus.common.bus.connection import BusSettings
from skillbus.standalone.nats_server import find_nats_binary

_ACCOUNTS: Final = 10
"""Accounts of one server. Each leaves its streams there until the server is replaced, and all of them slow it down."""
_READY_S: Final = 10.0
_MAX_STORE_BYTES: Final = 2**50
"""More than the streams of all accounts reserve."""


class NatsAccounts:
    """Gives out accounts, each once, and replaces the server when all of its accounts were used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._password = secrets.token_urlsafe(24)
        self._unused: list[str] = []
        self._url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def take_account(self) -> BusSettings:
        """Return the settings of an empty account."""
        if not self._unused:
            self.stop()
            self._start()
        return BusSettings(url=self._url, user=self._unused.pop(), password=SecretStr(self._password))

    def stop(self) -> None:
        """Kill the server, and remove what it wrote."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        ports = self._folder / "ports"
        ports.mkdir(parents=True)
        self._unused = [f"account-{number}" for number in range(_ACCOUNTS)]
        config = self._folder / "nats-server.conf"
        config.write_text(json.dumps(self._make_config()))
        command = (find_nats_binary(), "--config", str(config), "--ports_file_dir", str(ports))
        with (self._folder / "nats-server.log").open("ab") as log:
            self._process = subprocess.Popen(
                bind_to_parent(command, os.environ, signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self._url = self._wait_for_url(self._process, ports)

    def _make_config(self) -> dict[str, object]:
        accounts = {
            name: {"jetstream": "enabled", "users": [{"user": name, "password": self._password}]}
            for name in self._unused
        }
        store = {"store_dir": str(self._folder / "store"), "sync_interval": "always"}
        return {
            "listen": "127.0.0.1:-1",
            "accounts": accounts,
            "jetstream": {**store, "max_file_store": _MAX_STORE_BYTES},
        }

    def _wait_for_url(self, process: subprocess.Popen[bytes], ports: Path) -> str:
        # The server writes this file once it listens. It gives no other signal.
        until = time.monotonic() + _READY_S
        while time.monotonic() < until and process.poll() is None:
            for file in ports.glob("*.ports"):
                with suppress(ValueError, KeyError, IndexError):
                    return str(json.loads(file.read_text())["nats"][0])
            time.sleep(0.005)
        raise RuntimeError(f"nats-server does not listen: {(self._folder / 'nats-server.log').read_text()}")


@contextmanager
def open_nats_accounts(folder: Path) -> Iterator[NatsAccounts]:
    accounts = NatsAccounts(folder)
    try:
        yield accounts
    finally:
        accounts.stop()
