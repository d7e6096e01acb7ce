"""`skillbus demo`."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from skillbus.cli.errors import EXIT_FAILED, CliError, LocalFileError, StoppedError
from skillbus.cli.server.launcher import Running, ServerPlan
from skillbus.cli.server.options import DEFAULT_DATA, DEFAULT_HOST, DEFAULT_PORT, HostOption, LogOption
from skillbus.cli.server.up import facts_of
from skillbus.cli.session import ServerSession

if TYPE_CHECKING:
    from skillbus.cli.demo.record import Record

SkillsOption = Annotated[
    Path, typer.Option("--skills", help="Folder of skills to play on; its siblings data and knowledge have the rest.")
]
StayOption = Annotated[bool, typer.Option("--stay", help="Stay up afterwards, until SIGINT or SIGTERM.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", file_okay=False, help="Folder that everything is kept in: data with --stay, else temporary."
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option("--http-port", min=0, max=65_535, help="Port of the HTTP API: 8080 with --stay, else any free one."),
]
OwnKeyOption = Annotated[
    str | None,
    typer.Option("--key", envvar=["SKILLBUS_OWNER_KEY", "SKILLBUS_KEY"], help="The owner's key, if one is set."),
]


async def demo(
    session: ServerSession,
    skills: SkillsOption = Path("examples/skills"),
    stay: StayOption = False,
    data: DataOption = None,
    http_port: PortOption = None,
    host: HostOption = DEFAULT_HOST,
    log_level: LogOption = "WARNING",
    key: OwnKeyOption = None,
) -> None:
    """Start everything, install the example skills, search, run one, and ask for knowledge. Exits with 1 if any failed.

    With --stay it stays up also when a step failed, and exits with 1 afterwards. SKILLBUS_OWNER_KEY is the key that
    every HTTP request must carry; without one, only a loopback --host is allowed.
    """
    from skillbus.cli.demo.record import Record  # noqa: PLC0415 (slow)

    folders, record = skill_folders(skills), Record()
    port = http_port if http_port is not None else (DEFAULT_PORT if stay else 0)
    stopping = asyncio.ensure_future(session.outside.until_signal())
    try:
        async with AsyncExitStack() as stack:
            kept = data or (DEFAULT_DATA if stay else Path(stack.enter_context(TemporaryDirectory(prefix="skillbus-"))))
            running = await _start(session, stack, ServerPlan(kept, host, port, log_level), record)
            try:
                await unless_stopped(_play(session, running, folders, record, key), stopping)
                _report(session, record)
            except CliError as error:
                if not stay or isinstance(error, StoppedError):
                    raise
                _report_failure(session, record, error)
                session.output.note(what_works(record), "bold")
            if stay:
                session.output.note("\nStays up until Ctrl-C.")
                await stopping
        if stay:
            session.output.note("Stopped.")
        if record.failed:
            raise typer.Exit(EXIT_FAILED)
    except CliError as error:
        _report_failure(session, record, error)
        raise typer.Exit(EXIT_FAILED) from error
    finally:
        stopping.cancel()


def skill_folders(skills: Path) -> tuple[Path, ...]:
    """The folders with a SKILL.md, by name."""
    found = tuple(sorted(path.parent for path in skills.glob("*/SKILL.md")))
    if not found:
        raise LocalFileError(f"no skills are in {skills}", "Run it in the checkout, or name a folder with --skills.")
    return found


def what_works(record: "Record") -> str:
    """What can be done all the same with a server that is up, although a step failed."""
    docs = record.steps[0].facts["docs_url"]
    failed = record.failed
    rest = "Search and install work" if failed and failed.name == "run" else "The server is up all the same"
    return f"\n{rest}; API docs: {docs}"


async def unless_stopped(work: Coroutine[object, object, None], stopping: asyncio.Future[None]) -> None:
    """Do the work.

    Raises:
        StoppedError: a signal came first; the work was cancelled.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise StoppedError("a signal came before the demo was done")
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _start(session: ServerSession, stack: AsyncExitStack, plan: ServerPlan, record: "Record") -> Running:
    started = perf_counter()
    with record.step("start") as step:
        running = await stack.enter_async_context(session.outside.start(plan))
        step.facts.update(facts_of(running, perf_counter() - started))
    session.output.say(Text(f"Services ready in {perf_counter() - started:.1f} s: {running.http_url}", "bold"))
    return running


async def _play(
    session: ServerSession, running: Running, folders: tuple[Path, ...], record: "Record", key: str | None
) -> None:
    from skillbus.cli.client.skills import Remote, open_client  # noqa: PLC0415 (slow)
    from skillbus.cli.demo.steps import Demo  # noqa: PLC0415 (slow)

    async with open_client(Remote(running.http_url, key), session.outside.transport) as client:
        examples = folders[0].parent.parent
        await Demo(client, session.output, record, folders, examples / "data", examples / "knowledge").play()


def _report(session: ServerSession, record: "Record") -> None:
    docs = record.steps[0].facts["docs_url"]
    session.output.show(record.document(), lambda: Text(f"\nAPI docs: {docs}", "bold"))


def _report_failure(session: ServerSession, record: "Record", error: CliError) -> None:
    failed = record.failed
    if session.output.as_json:
        session.output.show(record.document() | {"ok": False, "error": error.document()}, str)
        return
    session.output.note(f"\nThe demo failed in the step {failed.name if failed else 'start'}.", "bold red")
    session.output.fail(error)
