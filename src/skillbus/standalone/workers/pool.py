"""Worker processes of one skillbus: their start, their supervision, their end, and what all processes say together."""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from skillbus.common.background import end_tasks, finish_within
from skillbus.common.http_server import TlsFiles, serve_http
from skillbus.common.runner import StartError
from skillbus.contracts.endpoint import HealthCheck
from skillbus.standalone.settings import StandalonePlan
from skillbus.standalone.workers.channel import ChannelClosedError, Handlers, ProcessChannel, open_channel
from skillbus.standalone.workers.forwarded_app import list_request_handlers
from skillbus.standalone.workers.store_copy import COPY_STORE, CopiedVectorStore

GET_PLAN: Final = "get_plan"
REPORT_READY: Final = "report_ready"
CHECK_PROCESSES: Final = "check_processes"
RENDER_METRICS: Final = "render_metrics"
COLLECT_METRICS: Final = "collect_metrics"
PING: Final = "ping"
_READY_TIMEOUT_S: Final = 90.0
_STOP_TIMEOUT_S: Final = 45.0
"""More than requests in flight get: HTTP 10 s, and the drain of the bus 30 s."""
_METRICS_TIMEOUT_S: Final = 1.0
_PING_EVERY_S: Final = 2.0
_HANGS_S: Final = 8.0
"""Time without an answer after which a worker is killed: connections that it gets wait for as long as it hangs."""
_BACKOFF_S: Final = (0.2, 1.0, 5.0, 15.0)
_STEADY_S: Final = 60.0
"""Time after which a worker that dies counts as one that had worked: the first pause follows."""

log = structlog.get_logger(__name__)


class Worker:
    """One worker process, which is started again whenever it ends."""

    def __init__(
        self,
        number: int,
        module: str = "skillbus.standalone.workers",
        *,
        ping_every_s: float = _PING_EVERY_S,
        hangs_s: float = _HANGS_S,
    ) -> None:
        """Make the worker that runs a module. It is killed when it does not answer for `hangs_s`."""
        self.number = number
        self._module = module
        self._ping_every_s = ping_every_s
        self._hangs_s = hangs_s
        self.handlers: Handlers = {}
        self.starts = 0
        self.is_ready = asyncio.Event()
        self.channel: ProcessChannel | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False

    def get_channel(self) -> ProcessChannel:
        """Return the channel to the process. Raises ChannelClosedError if there is none."""
        if self.channel is None:
            raise ChannelClosedError("the worker has ended")
        return self.channel

    async def note_ready(self, pid: int) -> None:
        """Note that the process serves. It calls this itself."""
        self.is_ready.set()
        log.info("worker_ready", worker=self.number, pid=pid)

    async def supervise(self) -> None:
        """Run the process again and again, with growing pauses, until `stop`.

        The other processes serve meanwhile. To end them all would turn one fault into an outage.

        Raises:
            StartError: It ended before it was ready for the first time.
        """
        clock, failures = asyncio.get_running_loop().time, 0
        while not self._is_stopping:
            began, was_ready = clock(), self.is_ready.is_set()
            code = await self._run_process()
            if self._is_stopping:
                return
            if not was_ready and not self.is_ready.is_set() and self.starts == 1:
                raise StartError(
                    f"worker {self.number} ended with code {code} before it was ready: its lines in the log say why"
                )
            self.is_ready.clear()
            failures = 0 if clock() - began > _STEADY_S else failures + 1
            pause_s = _BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)]
            log.error("worker_died", worker=self.number, exit_code=code, starts_again_s=pause_s)
            await asyncio.sleep(pause_s)

    async def stop(self) -> None:
        """End the process after its requests, and kill it when that takes too long."""
        self._is_stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        if not await finish_within(process.wait(), _STOP_TIMEOUT_S):
            log.error("worker_killed", worker=self.number, after_s=_STOP_TIMEOUT_S)
            with suppress(ProcessLookupError):
                process.kill()

    async def _run_process(self) -> int:
        own, given = socket.socketpair()
        with given:
            # -P: a file of the current folder must not stand in for a module.
            words = (sys.executable, "-P", "-m", self._module, str(self.number), str(given.fileno()))
            # A session of its own: Ctrl-C reaches this process alone, which ends the workers in order. They end by
            # themselves when the channel closes, as when this process was killed.
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, pass_fds=(given.fileno(),), start_new_session=True
            )
        self._process, self.starts = process, self.starts + 1
        try:
            async with open_channel(own, self.handlers) as self.channel:
                ended = asyncio.ensure_future(process.wait())
                closed = asyncio.ensure_future(self.channel.closed.wait())
                watching = asyncio.create_task(self._kill_when_it_hangs(process, self.channel))
                await asyncio.wait((ended, closed), return_when=asyncio.FIRST_COMPLETED)
                closed.cancel()
                watching.cancel()
            # Without a channel it ends by itself, unless it hangs.
            return await asyncio.wait_for(ended, _STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            return await process.wait()
        finally:
            self.channel = None
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _kill_when_it_hangs(self, process: asyncio.subprocess.Process, channel: ProcessChannel) -> None:
        await self.is_ready.wait()
        with suppress(ChannelClosedError):  # it has ended by itself
            while await finish_within(channel.call(PING), self._hangs_s):  # noqa: ASYNC110 (it asks again and again)
                await asyncio.sleep(self._ping_every_s)
            log.error("worker_hangs", worker=self.number, silent_s=self._hangs_s)
            with suppress(ProcessLookupError):
                process.kill()


class WorkerPool:
    """All workers, and what the main process does for them."""

    def __init__(self, plan: StandalonePlan, store: CopiedVectorStore, registry: CollectorRegistry) -> None:
        self._plan = plan
        self._registry = registry
        self._app: ASGIApp | None = None
        self._workers: list[Worker] = []
        shared: Handlers = {
            GET_PLAN: self._get_plan,
            CHECK_PROCESSES: self.check_processes,
            RENDER_METRICS: self.render_metrics,
        }
        for number in range(1, plan.settings.workers):
            worker = Worker(number)
            worker.handlers = {
                **shared,
                REPORT_READY: worker.note_ready,
                COPY_STORE: partial(_add_copy, store, worker),
                **list_request_handlers(worker.get_channel, self._get_app),
            }
            self._workers.append(worker)

    @asynccontextmanager
    async def serve(self, app: ASGIApp, tls: TlsFiles | None) -> AsyncGenerator[str]:
        """Serve `app` and run the workers while the context is open, and yield the URL of all.

        `app` also answers what the workers hand over.

        Raises:
            StartError: A worker ended before it was ready, or is not ready in time.
        """
        self._app = app
        gateway = self._plan.gateway
        # Starlette and uvicorn declare different types for ASGI messages; they are the same at run time.
        serving = serve_http(app, gateway.host, gateway.port, tls, is_shared=True)  # type: ignore[arg-type]
        async with serving as url:
            found = gateway.model_copy(update={"port": urlsplit(url).port})
            self._plan = replace(self._plan, gateway=found)
            async with self._run_workers():  # they end first: this process answers meanwhile
                yield url

    async def check_processes(self) -> HealthCheck:
        """Return which processes serve. The system is ready with this one alone."""
        ready = sum(worker.is_ready.is_set() for worker in self._workers)
        names = ", ".join(("the main process", *(_describe_worker(worker) for worker in self._workers)))
        detail = f"{ready + 1} of {len(self._workers) + 1} processes: {names}"
        return HealthCheck(name="workers", ready=ready == len(self._workers), detail=detail)

    async def render_metrics(self) -> bytes:
        """Return the metrics of all processes that answer within a second; those of a worker have a label for it."""
        answers = await asyncio.gather(*(self._collect_metrics(worker) for worker in self._workers))
        workers = zip(self._workers, answers, strict=True)
        merged = merge_families(self._registry.collect(), {str(it.number): found for it, found in workers})
        return generate_latest(_FoundFamilies(merged))

    @asynccontextmanager
    async def _run_workers(self) -> AsyncGenerator[None]:
        supervisors = [asyncio.create_task(worker.supervise()) for worker in self._workers]
        try:
            await self._wait_for_start(supervisors)
            yield
        finally:
            await asyncio.gather(*(worker.stop() for worker in self._workers))
            await end_tasks(*supervisors)

    async def _wait_for_start(self, supervisors: Sequence[asyncio.Task[None]]) -> None:
        starting = asyncio.create_task(self._wait_until_ready())
        try:
            tasks = [starting, *supervisors]
            await asyncio.wait(tasks, timeout=_READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            all_ready = starting.done()
            starting.cancel()
        for supervisor in supervisors:
            if supervisor.done():
                supervisor.result()  # raises StartError
        if not all_ready:
            late = ", ".join(str(worker.number) for worker in self._workers if not worker.is_ready.is_set())
            raise StartError(f"worker {late} is not ready after {_READY_TIMEOUT_S:.0f} s: see its lines in the log")

    async def _wait_until_ready(self) -> None:
        for worker in self._workers:
            await worker.is_ready.wait()

    async def _collect_metrics(self, worker: Worker) -> list[Metric]:
        channel = worker.channel
        if channel is None or not worker.is_ready.is_set():
            return []
        with suppress(TimeoutError, ChannelClosedError):
            async with asyncio.timeout(_METRICS_TIMEOUT_S):
                found: list[Metric] = await channel.call(COLLECT_METRICS)
                return found
        return []

    async def _get_plan(self) -> StandalonePlan:
        return self._plan

    def _get_app(self) -> ASGIApp:
        if self._app is None:
            raise RuntimeError("no application is open")
        return self._app


class _FoundFamilies(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def merge_families(own: Iterable[Metric], workers: Mapping[str, Iterable[Metric]]) -> Iterator[Metric]:
    """Return families of metrics with the samples of this process, and those of each worker with the label `worker`."""
    families = {family.name: family for family in own}
    for name, found in workers.items():
        for family in found:
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            merged.samples += [it._replace(labels={**it.labels, "worker": name}) for it in family.samples]
    yield from families.values()


async def _add_copy(store: CopiedVectorStore, worker: Worker, path: Path) -> None:
    await store.add_copy(path, worker.get_channel())


def _describe_worker(worker: Worker) -> str:
    state = "" if worker.is_ready.is_set() else " is starting"
    again = "" if worker.starts < 2 else f" (started {worker.starts} times)"
    return f"worker {worker.number}{state}{again}"
