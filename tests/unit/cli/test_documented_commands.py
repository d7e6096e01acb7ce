"""What the documents say to type is what the command line knows."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from skillbus.cli.__main__ import create_app
from skillbus.cli.command_tree import LazyGroup

ROOT = Path(__file__).parents[3]
ROOT_COMMAND = get_command(create_app())
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "examples/README.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "services").glob("*/README.md")),
]


def commands_in(text: str) -> Iterator[str]:
    """In blocks, behind a prompt; in sentences, as code, which a line may end within."""
    for line in re.findall(r"^\$ (.+)$", text, re.MULTILINE):
        yield from (part.strip() for part in line.split(" && ") if part.strip().startswith("skillbus "))
    sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(code.split()) for code in re.findall(r"`(skillbus\s+[a-z][^`]*)`", sentences))


def unknown_in(words: Sequence[str]) -> list[str]:
    """The first word that is no command, or the options that the command does not have."""
    command, words = ROOT_COMMAND, list(words)
    while isinstance(command, TyperGroup) and words:
        word = words.pop(0)
        if any(word in parameter.opts for parameter in command.params):
            return []
        if isinstance(command, LazyGroup) and command.default and command.is_for_default(word):
            words, word = [word, *words], command.default
        found = command.get_command(typer.Context(command), word)
        if found is None:
            return [word]
        command = found
    own = words[: words.index("--")] if "--" in words else words
    known = {option for it in command.params for option in (*it.opts, *it.secondary_opts)} | {"--help"}
    return [word for word in own if word.startswith("-") and word != "-" and word not in known]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_document_is_known_with_its_options(document: Path) -> None:
    commands = list(commands_in(document.read_text(encoding="utf-8")))
    unknown = {it: names for it in commands if (names := unknown_in(shlex.split(it, comments=True)[1:]))}
    assert unknown == {}


def every_command(command: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name in command.list_commands(typer.Context(command)):
        found = command.get_command(typer.Context(command), name)
        if isinstance(found, TyperGroup):
            yield from every_command(found, (*words, name))
        else:
            yield (*words, name)


def test_every_help_page_begins_with_what_the_command_does_and_has_a_known_example() -> None:
    assert isinstance(ROOT_COMMAND, TyperGroup)
    commands = list(every_command(ROOT_COMMAND))
    assert len(commands) > 50
    for words in commands:
        page = CliRunner().invoke(create_app(), [*words, "--help"]).stdout.splitlines()
        first = page[page.index("") + 1].split()
        assert page[0].startswith("Usage: ")
        assert first[0].rstrip(",").isalpha(), words
        assert first[0].istitle(), words
        examples = [line.strip().removeprefix("$ ") for line in page if line.startswith("    $ skillbus")]
        assert examples, words
        assert [unknown_in(shlex.split(example)[1:]) for example in examples] == [[]] * len(examples), words


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    text = "Say `skillbus tools\nlist --json`.\n```console\n$ skillbus search x --deep && skillbus audit  # all\n```\n"
    assert [it for it in (shlex.split(one, comments=True) for one in commands_in(text)) if unknown_in(it[1:])] == [
        ["skillbus", "search", "x", "--deep"]
    ]
    assert list(commands_in(text))[-1] == "skillbus tools list --json"
    assert unknown_in(["tools", "fly"]) == ["fly"]
