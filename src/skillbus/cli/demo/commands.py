"""`skillbus demo`."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer
from rich.text import Text

from skillbus.cli.demo.steps import Demo, DemoRecord
from skillbus.cli.errors import EXIT_FAILED, CliError, LocalFileError, StoppedError
from skillbus.cli.server.commands import (
    DEFAULT_DATA,
    DEFAULT_HOST,
    DEFAULT_PORT,
    HostOption,
    LogOption,
    NoKeyOption,
    describe_server,
    remember_server,
    show_login_address,
)
from skillbus.cli.server.launcher import RunningServer, ServerPlan
from skillbus.cli.session import LocalSession, server_command

SkillsOption = Annotated[
    Path, typer.Option("--skills", help="Folder of skills. The folders data and knowledge next to it are used too.")
]
StayOption = Annotated[
    bool, typer.Option("--stay", help="Keep the server running afterwards, until SIGINT or SIGTERM.")
]
DemoDataOption = Annotated[
    Path | None,
    typer.Option("--data", file_okay=False, help="Data directory. Default: ./data with --stay, else a temporary one."),
]
DemoPortOption = Annotated[
    int | None,
    typer.Option("--http-port", min=0, max=65_535, help="Port of the HTTP API. Default: 8080 with --stay, else free."),
]


@server_command("skillbus demo --stay")
async def run_demo(
    session: LocalSession,
    skills: SkillsOption = Path("examples/skills"),
    stay: StayOption = False,
    data: DemoDataOption = None,
    http_port: DemoPortOption = None,
    host: HostOption = DEFAULT_HOST,
    log_level: LogOption = "WARNING",
    no_key: NoKeyOption = False,
) -> None:
    """Start everything and show search, a run and knowledge on the examples.

    Exits with 1 if a step failed; with --stay, when the server is stopped. HTTP requests carry the owner's key:
    SKILLBUS_OWNER_KEY, or the file owner.key of the data directory, which the first start makes.
    """
    folders, record = list_skill_folders(skills), DemoRecord()
    port = http_port if http_port is not None else (DEFAULT_PORT if stay else 0)
    stopping = asyncio.ensure_future(session.externals.wait_for_signal())
    try:
        async with AsyncExitStack() as stack:
            kept = data or (DEFAULT_DATA if stay else Path(stack.enter_context(TemporaryDirectory(prefix="skillbus-"))))
            running = await _start_server(session, stack, ServerPlan(kept, host, port, log_level, no_key), record)
            if stay:
                remember_server(running)
            docs_url = record.steps[0].facts["docs_url"]
            try:
                await _finish_unless_stopped(_play_demo(session, running, folders, record), stopping)
                session.output.show_result(record.document(), lambda: Text(f"\nAPI docs: {docs_url}", "bold"))
            except CliError as error:
                if not stay or isinstance(error, StoppedError):
                    raise
                _report_failure(session, record, error)
                is_run = record.failed is not None and record.failed.name == "run"
                works = "Search and install work" if is_run else "The server runs nevertheless"
                session.output.print_note(f"\n{works}; API docs: {docs_url}", "bold")
            if stay:
                if not session.output.as_json:
                    await show_login_address(session, running)
                session.output.print_note("\nThe server runs until Ctrl-C.")
                await stopping
        if stay:
            session.output.print_note("Stopped.")
        if record.failed:
            raise typer.Exit(EXIT_FAILED)
    except CliError as error:
        _report_failure(session, record, error)
        raise typer.Exit(EXIT_FAILED) from error
    finally:
        stopping.cancel()


def list_skill_folders(skills: Path) -> tuple[Path, ...]:
    """Return the folders with a SKILL.md by name.

    Raises:
        LocalFileError: There is none.
    """
    found = tuple(sorted(path.parent for path in skills.glob("*/SKILL.md")))
    if not found:
        raise LocalFileError(f"no skills are in {skills}", "Run it in the checkout, or give a folder with --skills.")
    return found


async def _start_server(
    session: LocalSession, stack: AsyncExitStack, plan: ServerPlan, record: DemoRecord
) -> RunningServer:
    started = perf_counter()
    with record.begin_step("start") as step:
        running = await stack.enter_async_context(session.externals.start(plan))
        step.facts.update(describe_server(running, perf_counter() - started))
    took_s = perf_counter() - started
    session.output.print_text(Text(f"Services ready in {took_s:.1f} s: {running.http_url}", "bold"))
    return running


async def _play_demo(
    session: LocalSession, running: RunningServer, folders: tuple[Path, ...], record: DemoRecord
) -> None:
    # httpx takes 0.1 s of CPU to import, which help pages need not wait for.
    from skillbus.cli.client.connection import Remote, open_connection  # noqa: PLC0415

    async with open_connection(Remote(running.http_url, running.api_key), session.externals.transport) as connection:
        examples = folders[0].parent.parent
        await Demo(connection, session.output, record, folders, examples / "data", examples / "knowledge").play()


async def _finish_unless_stopped(work: Coroutine[object, object, None], stopping: asyncio.Future[None]) -> None:
    """Finish the work.

    Raises:
        StoppedError: A signal arrived first, and the work was cancelled.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise StoppedError("a signal arrived before the demo was done")
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})


def _report_failure(session: LocalSession, record: DemoRecord, error: CliError) -> None:
    if session.output.as_json:
        session.output.show_result(record.document() | {"ok": False, "error": error.document()}, str)
        return
    step = record.failed.name if record.failed else "start"
    session.output.print_note(f"\nThe demo failed in the step {step}.", "bold red")
    session.output.print_error(error)
