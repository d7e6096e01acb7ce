"""`skillbus run`."""

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final
from uuid import uuid4

import typer
from typer.core import TyperCommand

from skillbus.cli.errors import CliError, LocalFileError, RunFailedError, StoppedError
from skillbus.cli.session import ARGV, Session
from skillbus.cli.skills.names import checked_name
from skillbus.cli.text import plain, size

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typer._click import Context  # what TyperCommand's own methods are declared with

    from skillbus.cli.client.replies import Ran
    from skillbus.cli.client.skills import RunOrder
    from skillbus.cli.runs.artifacts import SavedArtifact

Name = Annotated[str, typer.Argument(help="The skill.")]
Action = Annotated[str | None, typer.Argument(help="What of it; its default action if absent.", show_default=False)]
Args = Annotated[str | None, typer.Option("--args", metavar="JSON", help="Arguments by name, as a JSON object.")]
Stdin = Annotated[str | None, typer.Option("--stdin", metavar="FILE", help="Its standard input; - for ours.")]
Files = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="PATH", exists=True, dir_okay=False, help="Bring this file along; repeatable."),
]
Out = Annotated[Path, typer.Option("--out", file_okay=False, help="Where to save the files that it makes.")]
Stream = Annotated[bool, typer.Option("--stream", help="Print what it prints as it comes.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0.001, max=3600, help="Seconds that it may take.")]

_TO_END_S: Final = 15.0
"""For a run that is ended to tell what it gave."""


class WithArgv(TyperCommand):
    """Keeps the words after `--` apart: they are the skill's, and ours may be optional."""

    usage: ClassVar[str] = "[-- ARGV...]"

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse what stands before `--`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[ARGV] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        """For the usage line."""
        return [*super().collect_usage_pieces(ctx), self.usage]


async def run(  # noqa: PLR0913, PLR0917 (its options)
    session: Session,
    name: Name,
    action: Action = None,
    args: Args = None,
    stdin: Stdin = None,
    files: Files = None,
    out: Out = Path(),
    timeout: Timeout = None,  # noqa: ASYNC109 (the skill's, not this function's)
    stream: Stream = False,
) -> None:
    """Run a skill in the sandbox.

    Arguments are --args JSON, or the words after --. The skill's output goes to stdout and stderr, the files that it
    makes to --out, beside what is there. Exits with 1 when the run did not end well, whatever the skill's own exit
    code was; --json has that. Ctrl-C ends the run and shows what it gave so far.
    """
    from skillbus.cli.client.skills import RunOrder  # noqa: PLC0415 (slow)

    if stream and session.output.as_json:
        raise typer.BadParameter("--json prints one document when the run is over", param_hint="--stream")
    if args is not None and session.argv is not None:
        raise typer.BadParameter("give --args or words after --, not both", param_hint="--args")
    order = RunOrder(
        name=checked_name(name),
        action=action,
        args=None if args is None else parsed_args(args),
        argv=session.argv,
        stdin=None if stdin is None else _read_stdin(stdin),
        files=read_files(files or []),
        timeout_s=timeout,
        run_id=uuid4().hex,
    )
    ran = await ended(session, order, stream=stream)
    saved, errors = await _save_all(session, ran, out)
    if session.output.as_json:
        session.output.show(document_of(ran, saved, errors), str)
    else:
        if not stream:
            _print_output(session, ran)
        _print_end(session, ran)
        for error in errors:
            session.output.fail(error)
    if errors or ran.status.value != "ok":
        raise typer.Exit(RunFailedError.exit_code)


def parsed_args(text: str) -> "dict[str, JsonValue]":
    """Arguments by name."""
    try:
        value = json.loads(text)
        # What Python reads and JSON cannot say: NaN, numbers without end, and halves of a character.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--args") from error
    if not isinstance(value, dict):
        raise typer.BadParameter('not a JSON object like {"name": "value"}', param_hint="--args")
    return value


def read_files(paths: list[Path]) -> dict[str, bytes]:
    """The files' contents by base name."""
    contents: dict[str, bytes] = {}
    for path in paths:
        name = path.resolve().name if path.name in {"", ".."} else path.name
        if name in contents:
            raise typer.BadParameter(f"two files are called {name}: rename one of them", param_hint="--file")
        try:
            contents[name] = path.read_bytes()
        except OSError as error:
            raise LocalFileError(f"{path}: {error.strerror or error}", "Check its permissions.") from error
    return contents


def document_of(ran: "Ran", saved: "list[SavedArtifact]", errors: list[CliError]) -> dict[str, object]:
    """The reply for programs: artifacts by where they were saved, instead of their contents."""
    document: dict[str, object] = ran.model_dump(mode="json", exclude={"artifacts"})
    where = {item.name: str(item.path) for item in saved}
    document["artifacts"] = [
        artifact.model_dump(mode="json", exclude={"content"}) | {"saved_to": where.get(artifact.name)}
        for artifact in ran.artifacts
    ]
    return document | {"errors": [error.document() for error in errors]}


def _read_stdin(source: str) -> str:
    try:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return content.decode()
    except OSError as error:
        raise typer.BadParameter(f"{source}: {error.strerror or error}", param_hint="--stdin") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{source} is not UTF-8: bring it along with --file", param_hint="--stdin") from error


async def _save_all(session: Session, ran: "Ran", folder: Path) -> "tuple[list[SavedArtifact], list[CliError]]":
    """Save what can be saved; one artifact's error does not lose the others."""
    from skillbus.cli.runs.artifacts import content_of, save  # noqa: PLC0415 (slow)

    saved: list[SavedArtifact] = []
    errors: list[CliError] = []
    for artifact in ran.artifacts:
        try:
            saved.append(save(folder, artifact.name, await content_of(session.client, artifact)))
        except CliError as error:
            errors.append(error)
            continue
        session.output.note(f"saved {saved[-1].path} ({size(saved[-1].size_bytes)})")
    return saved, errors


async def ended(session: Session, order: "RunOrder", *, stream: bool) -> "Ran":
    """The run at its end. Ctrl-C ends it there, and not here: what it gave so far comes back as a cancelled run's."""
    hear = partial(_print_part, session)
    asking = asyncio.create_task(session.runs.follow(order, hear) if stream else session.client.run(order))
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        session.output.note("interrupted: the run is being ended")
        try:
            await session.runs.cancel(order.run_id or "")
            async with asyncio.timeout(_TO_END_S):
                return await asking
        except TimeoutError as error:
            raise StoppedError("the run does not end", "`skillbus runs` shows whether it still goes on.") from error
    finally:
        asking.cancel()
        await asyncio.wait([asking])


def _print_part(session: Session, stream: str, text: str) -> None:
    if stream == "stderr":
        sys.stderr.write(plain(text) if session.output.err.is_terminal else text)
        sys.stderr.flush()
    else:
        session.output.write(plain(text) if session.output.out.is_terminal else text)


def _print_output(session: Session, ran: "Ran") -> None:
    session.output.write(_ended(plain(ran.stdout)) if session.output.out.is_terminal else ran.stdout)
    sys.stderr.write(_ended(plain(ran.stderr) if session.output.err.is_terminal else ran.stderr))


def _print_end(session: Session, ran: "Ran") -> None:
    cut = ", output cut at its limit" if ran.truncated else ""
    session.output.note(f"{ran.status.value} in {ran.duration_ms:.0f} ms, isolation: {ran.isolation}{cut}")
    if ran.status.value == "ok":
        if ran.detail:
            session.output.note(ran.detail)
        return
    code = "" if ran.exit_code is None else f" with exit code {ran.exit_code}"
    why = f": {ran.detail}" if ran.detail else ""
    session.output.fail(
        RunFailedError(f"{ran.status.value}{code}{why} (run {ran.run_id})", "Its own words are above, if it had any.")
    )


def _ended(text: str) -> str:
    """Text with a last newline, or nothing."""
    return text if not text or text.endswith("\n") else f"{text}\n"
