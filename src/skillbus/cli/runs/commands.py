"""`skillbus run`."""

from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from skillbus.cli.errors import LocalFileError
from skillbus.cli.input_files import decode_text, encode_files, read_input
from skillbus.cli.options import DEFAULT_OUT, NameArgument, check_skill_name, parse_args
from skillbus.cli.session import Session, remote_command

Action = Annotated[
    str | None, typer.Argument(help="Action of the skill. Default: its default action.", show_default=False)
]
Args = Annotated[
    str | None, typer.Option("--args", "--arguments", metavar="JSON", help="Arguments by name, as a JSON object.")
]
Stdin = Annotated[str | None, typer.Option("--stdin", metavar="FILE", help="Standard input of the skill; - for ours.")]
Files = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="PATH", exists=True, dir_okay=False, help="Input file of the skill. Repeatable."),
]
Out = Annotated[Path, typer.Option("--out", file_okay=False, help="Folder for the files that the skill writes.")]
Stream = Annotated[bool, typer.Option("--stream", help="Print the output as it arrives.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0.001, max=3600, help="Seconds that the run may take.")]


@remote_command(
    'skillbus run csv-summary --args \'{"file": "orders.csv"}\' --file orders.csv', trailing_words="ARGV..."
)
async def run_skill(  # noqa: PLR0913, PLR0917 (one parameter for each option)
    session: Session,
    name: NameArgument,
    action: Action = None,
    args: Args = None,
    stdin: Stdin = None,
    files: Files = None,
    out: Out = DEFAULT_OUT,
    timeout: Timeout = None,  # noqa: ASYNC109 (the run's timeout, not this function's)
    stream: Stream = False,
) -> None:
    """Run a skill in the sandbox.

    Arguments are --args JSON, or the words after --. The skill's output goes to stdout and stderr; the files that it
    writes go to --out, under free names. Exits with 1 unless the run's status is `ok`; --json shows the skill's own
    exit code. Ctrl-C ends the run and shows its output so far.
    """
    if stream and session.output.as_json:
        raise typer.BadParameter("--json prints one document when the run is over", param_hint="--stream")
    if args is not None and session.trailing_words is not None:
        raise typer.BadParameter("give --args or words after --, not both", param_hint="--args")
    name, run_id = check_skill_name(name), uuid4().hex
    fields: dict[str, object] = {
        "action": action,
        "args": None if args is None else parse_args(args),
        "argv": session.trailing_words,
        "stdin": None if stdin is None else _read_stdin(stdin),
        "files": encode_files(files) if files else None,
        "timeout_s": timeout,
        "run_id": run_id,
    }
    body = {field: value for field, value in fields.items() if value is not None}
    # The contracts are slow to import, and help pages need not wait for them.
    from skillbus.cli.runs.runner import run_and_show  # noqa: PLC0415

    await run_and_show(session, name, run_id, body, out, timeout_s=timeout, stream=stream)


def _read_stdin(file: str) -> str:
    try:
        return decode_text(read_input(file), file)
    except LocalFileError as error:
        raise typer.BadParameter(error.detail, param_hint="--stdin") from error
