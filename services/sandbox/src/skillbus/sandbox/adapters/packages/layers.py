"""Layers of packages on this machine: one per set of requirements, built once, evicted when space is needed."""

import asyncio
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

import structlog

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.host import find_shared_folder, is_open_to_all, run_in_thread
from skillbus.sandbox.adapters.packages.bounded_program import get_build_user
from skillbus.sandbox.adapters.packages.layer_builders import DEPS, LayerBuilder
from skillbus.sandbox.adapters.packages.layer_tree import discard_folder, seal_layer
from skillbus.sandbox.domain.errors import DependenciesInvalid, DependenciesUnavailable, RuntimeMissing
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.domain.packages.dependencies import FILE_BYTES_MAX, find_requirements
from skillbus.sandbox.domain.packages.python import is_python_supported
from skillbus.sandbox.domain.packages.requirements import Requirements
from skillbus.sandbox.domain.run.limits import MIB

_WITHIN_S: Final = 10.0
_PYTHON_QUERY: Final = (
    "import sys,platform;print(*sys.version_info[:3],sys.implementation.cache_tag,platform.machine())"
)
_NODE_QUERY: Final = "console.log(process.versions.node.replaceAll('.',' '),process.versions.modules,process.arch)"
_RECORD: Final = "layer.json"
_BUILDS: Final = 2
"""Concurrent builds."""
_REMEMBERED_S: Final = 30.0
"""Time before a failed build is tried again, however often the skill runs."""
_DECLARED_MAX: Final = 1024

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Interpreter that packages are installed for."""

    path: Path
    version: tuple[int, ...]
    identity: str
    """Version, binary interface and processor architecture."""


async def query_interpreter(path: Path, runtime: Runtime) -> Interpreter:
    """Run Python or Node to find its version. Raises DependenciesUnavailable if it does not answer."""
    argv = ("-I", "-S", "-c", _PYTHON_QUERY) if runtime is Runtime.PYTHON else ("-e", _NODE_QUERY)
    try:
        process = await asyncio.create_subprocess_exec(
            path, *argv, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, env={}
        )
    except OSError as error:
        raise DependenciesUnavailable(f"packages are for {path}, which cannot be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(_WITHIN_S):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise DependenciesUnavailable(f"{path} does not report its version", retryable=True) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    words = output.decode(errors="replace").split()
    if process.returncode != 0 or len(words) < 3:
        raise DependenciesUnavailable(f"{path} does not report its version")
    return Interpreter(path, tuple(int(word) for word in words[:3] if word.isdigit()), " ".join(words))


class LayerStore:
    """`Dependencies` in a folder of this machine. Use `open_layers`."""

    def __init__(
        self,
        folder: Path,
        builders: Mapping[Runtime, LayerBuilder],
        bytes_max: int,
        isolation: Isolation,
    ) -> None:
        self._folder = folder
        self._builders = builders
        self._bytes_max = bytes_max
        self._isolation = isolation
        self._permits = asyncio.Semaphore(_BUILDS)
        self._interpreters: dict[Path, Interpreter] = {}
        self._declared: dict[tuple[str, str], Requirements | None] = {}
        self._sizes: dict[str, int] = {}
        """Sizes of the layers, least recently used first."""
        self._in_use: Counter[str] = Counter()
        self._building: dict[str, asyncio.Task[DependenciesUnavailable | None]] = {}
        self._failed: dict[str, tuple[float, DependenciesUnavailable]] = {}

    async def prepare(self) -> None:
        """Load complete layers of an earlier process, and remove the rest."""
        self._sizes = await asyncio.to_thread(_load_sizes, self._folder)
        await self._make_room(0)

    @asynccontextmanager
    async def open_layer(
        self, skill_root: Path, script: str, runtime: Runtime, within_s: float, cancelled: asyncio.Event | None = None
    ) -> AsyncGenerator[Path | None]:
        requirements = self._requirements(skill_root, script, runtime) if runtime in self._builders else None
        if requirements is None:
            yield None
            return
        path = (await self._isolation.probe()).runtimes.get(runtime)
        if path is None:
            raise RuntimeMissing(f"{runtime} is not installed where the sandbox can see it")
        if path not in self._interpreters:
            self._interpreters[path] = await query_interpreter(path, runtime)
        interpreter = self._interpreters[path]
        if requirements.python and not is_python_supported(interpreter.version, requirements.python):
            version = ".".join(map(str, interpreter.version))
            raise DependenciesInvalid(f"{script} is for Python {requirements.python}, the sandbox has {version}")
        index = self._builders[runtime].index
        parts = (requirements.runtime, requirements.listed, requirements.lock, interpreter.identity, index)
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        self._in_use[key] += 1
        try:
            if key not in self._sizes:
                retry_at, _ = self._failed.get(key, (0.0, None))
                if key not in self._building and time.monotonic() >= retry_at:
                    self._building[key] = asyncio.create_task(self._build(key, requirements, interpreter))
                await self._wait_for(key, within_s, cancelled or asyncio.Event())
            self._sizes[key] = self._sizes.pop(key)
            await asyncio.to_thread((self._folder / key / _RECORD).touch)
            yield self._folder / key / DEPS
        finally:
            self._in_use[key] -= 1
            if not self._in_use[key]:
                del self._in_use[key]

    async def close(self) -> None:
        """Cancel builds under way."""
        building = tuple(self._building.values())
        for task in building:
            task.cancel()
        await asyncio.gather(*building, return_exceptions=True)

    def _requirements(self, skill_root: Path, script: str, runtime: Runtime) -> Requirements | None:
        """Return what a script declares; cached, because a digest names the folder of an unpacked skill."""
        asked = (str(skill_root), script)
        if asked not in self._declared:
            while len(self._declared) >= _DECLARED_MAX:
                del self._declared[next(iter(self._declared))]
            self._declared[asked] = find_requirements(partial(_read_file, skill_root), script, runtime)
        return self._declared[asked]

    async def _wait_for(self, key: str, within_s: float, cancelled: asyncio.Event) -> None:
        if building := self._building.get(key):
            leaving = asyncio.ensure_future(cancelled.wait())
            await asyncio.wait({building, leaving}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if not building.done():
                raise DependenciesUnavailable(
                    "the packages of this skill are still being fetched: run it again later", retryable=True
                )
            failure = building.result()
        else:
            _, failure = self._failed[key]
        if failure is not None:
            raise DependenciesUnavailable(str(failure), retryable=failure.retryable)

    async def _build(
        self, key: str, requirements: Requirements, interpreter: Interpreter
    ) -> DependenciesUnavailable | None:
        """Build a layer in the background. Return the failure, if any, and remember it."""
        began = time.monotonic()
        try:
            async with self._permits:
                size = await self._build_in_staging(key, requirements, interpreter.path)
        except (DependenciesUnavailable, OSError) as error:
            if isinstance(error, OSError):
                error = DependenciesUnavailable(f"the packages cannot be written: {error.strerror}", retryable=True)
            log.warning("layer_not_built", layer=key, reason=str(error))
            now = time.monotonic()
            self._failed = {other: kept for other, kept in self._failed.items() if kept[0] > now}
            self._failed[key] = (now + _REMEMBERED_S, error)
            return error
        finally:
            del self._building[key]
        self._failed.pop(key, None)
        log.info("layer_built", layer=key, size_bytes=size, build_ms=round(1000 * (time.monotonic() - began)))
        return None

    async def _build_in_staging(self, key: str, requirements: Requirements, interpreter: Path) -> int:
        builder = self._builders[requirements.runtime]
        staging = self._folder / f".{uuid4().hex}"
        work = staging / "work"
        for made in (staging, work):
            made.mkdir()
            made.chmod(0o755)  # regardless of the umask: another user may work there
        try:
            await builder.build(requirements, interpreter, work)
            size = await run_in_thread(partial(_finish, staging, requirements, builder))
            await self._make_room(size)
            staging.rename(self._folder / key)
            self._sizes[key] = size
        finally:
            await run_in_thread(partial(shutil.rmtree, staging, ignore_errors=True))
        return size

    async def _make_room(self, size: int) -> None:
        """Remove the least recently used layers until `size` more bytes fit; layers in use stay.

        Raises DependenciesUnavailable if they do not fit now.
        """
        while self._lacks(size) and (unused := [key for key in self._sizes if key not in self._in_use]):
            del self._sizes[unused[0]]
            await run_in_thread(partial(discard_folder, self._folder / unused[0]))
            log.info("layer_removed", layer=unused[0])
        if self._lacks(size):
            room = self._bytes_max // MIB
            raise DependenciesUnavailable(
                f"there is no space for {size // MIB} MiB: layers in use fill the limit of {room} MiB "
                "(SKILLBUS_SANDBOX_LAYERS_MIB)",
                retryable=True,
            )

    def _lacks(self, size: int) -> bool:
        return sum(self._sizes.values()) + size > self._bytes_max


@asynccontextmanager
async def open_layers(
    folder: Path, builders: Mapping[Runtime, LayerBuilder], bytes_max: int, isolation: Isolation
) -> AsyncGenerator[LayerStore]:
    """Open a store of at most `bytes_max` in `folder`, which is created. Leaving the context cancels builds.

    A root service may keep its data where the users of its runs cannot go. Its layers are then in a temporary folder
    and removed with the service.
    """
    async with AsyncExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0 and not is_open_to_all(folder):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="skillbus-layers-", dir=find_shared_folder())))
            folder.chmod(0o755)
        layers = LayerStore(folder, builders, bytes_max, isolation)
        await layers.prepare()
        stack.push_async_callback(layers.close)
        log.info("layers_ready", folder=str(folder), programs=[builder.program for builder in builders.values()])
        yield layers


def _read_file(root: Path, path: str) -> bytes | None:
    try:
        with (root / path).open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _load_sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of complete layers, least recently used first; remove everything else."""
    folder.mkdir(parents=True, exist_ok=True)
    used = dict[str, tuple[float, int]]()
    for path in folder.iterdir():
        record = path / _RECORD
        try:
            used[path.name] = (record.stat().st_mtime, int(json.loads(record.read_bytes())["size_bytes"]))
        except (OSError, ValueError, KeyError, TypeError):
            shutil.rmtree(path, ignore_errors=True)
    return {name: used[name][1] for name in sorted(used, key=lambda name: used[name][0])}


def _finish(staging: Path, requirements: Requirements, builder: LayerBuilder) -> int:
    """Move the built files out of the working folder, check them, and write the record of the layer."""
    deps = staging / DEPS
    (staging / "work" / DEPS).rename(deps)
    shutil.rmtree(staging / "work")
    size = seal_layer(deps, builder.layer_bytes, get_build_user())
    builder.check_layer(deps)
    record = {"size_bytes": size, "runtime": requirements.runtime, "listed": requirements.listed}
    (staging / _RECORD).write_text(json.dumps(record))
    staging.chmod(0o755)
    return size
