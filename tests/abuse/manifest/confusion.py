"""Data that is taken for something else."""

from dataclasses import replace
from typing import Final

from ..model import USUAL, Abuse, Weakening
from ..weakening import agent

_EXEC: Final = 'os.execv(job["exec"][0], job["exec"])'
_ARGUMENTS: Final = (
    "$(touch /work/1)",
    "`touch /work/2`",
    "; touch /work/3",
    "-c",
    "'quoted' \"twice\"",
    "a\nb",
    "",
    "*",
    "--version",
)

ABUSES: Final = (
    Abuse(
        "confusion_arguments.sh",
        "confusion_arguments.sh",
        "arguments are data for a shell",
        Weakening(
            "an agent that asks a shell",
            ("an argument was changed",),
            (agent(_EXEC, 'os.execv("/bin/sh", ["sh", "-c", " ".join(job["exec"])])'),),
        ),
        _ARGUMENTS,
    ),
    Abuse(
        "confusion_arguments.js",
        "confusion_arguments.js",
        "and no options for Node",
        Weakening(
            "an agent that names the script last",
            ("evaluated",),
            (agent(_EXEC, 'os.execv(job["exec"][0], [job["exec"][0], *job["exec"][2:], job["exec"][1]])'),),
        ),
        ("--eval", "console.log('through: evaluated')", "--title=taken", "-r", "/dev/null"),
    ),
    Abuse(
        "confusion_unread_input.py",
        "confusion_unread_input.py",
        "megabytes that nobody reads block nobody",
        Weakening("a payload that does wait", ("ended by timeout",), limits=replace(USUAL, wall_s=0.5), argv=("wait",)),
        stdin=b"x" * 5_000_000,
    ),
    Abuse(
        "confusion_input_rewritten.py",
        "confusion_input_rewritten.py",
        "standard input cannot be written to",
        Weakening(
            "a writable file in its place",
            ("wrote to standard input",),
            (agent("os.dup2(stdin, place)", 'os.dup2(os.open("/work/in", os.O_CREAT | os.O_RDWR), 0)'),),
        ),
    ),
)
