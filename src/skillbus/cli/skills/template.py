"""`skillbus skills new`: a skill to begin with, which passes `skillbus skills check` and runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from skillbus.cli.errors import LocalFileError
from skillbus.cli.options import NameArgument, check_skill_name
from skillbus.cli.session import LocalSession, server_command


class SkillLanguage(StrEnum):
    """Language of a new skill's script."""

    PYTHON = "python"
    NODE = "node"
    BASH = "bash"


_SKILL_MD: Final = """---
name: {name}
description: Greets a person by name. Replace this with what the skill does and when to use it, in its users' language.
metadata:
  version: "0.1.0"
  tags: "example"
  skillbus-entry: {script}
  skillbus-args: {args}
  skillbus-input-schema: schema.json
---

# {name}

Instructions for an agent: what the arguments mean, what the result looks like, and what to do when it fails.

```json
{{"name": "Lin"}}
```
"""
_SCHEMA: Final = """{
  "type": "object",
  "properties": {
    "name": { "type": "string", "minLength": 1, "description": "person to greet" }
  },
  "required": ["name"],
  "additionalProperties": false
}
"""
_PYTHON: Final = '''"""Arguments arrive as JSON on standard input; the result is JSON on standard output."""

import json
import sys


def main() -> None:
    arguments = json.load(sys.stdin)
    # Input files are in the folder $SKILLBUS_IN; files that are written to $SKILLBUS_OUT are returned.
    print(json.dumps({"greeting": f"Hello, {arguments['name']}!"}, ensure_ascii=False))


main()
'''
_NODE: Final = """// Arguments arrive as JSON on standard input; the result is JSON on standard output.
const { readFileSync } = require("node:fs");

const args = JSON.parse(readFileSync(0, "utf8"));
// Input files are in the folder $SKILLBUS_IN; files that are written to $SKILLBUS_OUT are returned.
console.log(JSON.stringify({ greeting: `Hello, ${args.name}!` }));
"""
_BASH: Final = """#!/usr/bin/env bash
# Arguments arrive as `--name VALUE`; the result is printed.
set -euo pipefail

name=
while [ $# -gt 0 ]; do
  case $1 in
    --name) name=$2; shift 2 ;;
    *) echo "error: unknown argument $1" >&2; exit 2 ;;
  esac
done
# Input files are in the folder $SKILLBUS_IN; files that are written to $SKILLBUS_OUT are returned.
echo "Hello, $name!"
"""
_SCRIPTS: Final = {
    SkillLanguage.PYTHON: ("scripts/main.py", "stdin-json", _PYTHON),
    SkillLanguage.NODE: ("scripts/main.cjs", "stdin-json", _NODE),
    SkillLanguage.BASH: ("scripts/main.sh", "argv", _BASH),
}
"""Path of the script, how it gets its arguments, and its text."""

LanguageOption = Annotated[SkillLanguage, typer.Option("--lang", help="Language of the script.")]
ParentOption = Annotated[Path, typer.Option("--in", file_okay=False, help="Folder to make it in.")]


@server_command("skillbus skills new word-count --lang node")
async def create_skill(
    session: LocalSession,
    name: NameArgument,
    language: LanguageOption = SkillLanguage.PYTHON,
    parent: ParentOption = Path(),
) -> None:
    """Make the folder of a new skill, with a SKILL.md and a script that runs. Nothing is installed.

    An existing folder is not changed.
    """
    folder = parent / check_skill_name(name)
    files = write_template(folder, language)
    session.output.show_result(
        {"folder": str(folder), "files": [str(file) for file in files]},
        lambda: Text(f"Wrote {folder}. Next: skillbus skills check {folder} && skillbus install {folder}"),
    )


def write_template(folder: Path, language: SkillLanguage) -> list[Path]:
    """Write the files of a new skill, which gets the name of its folder, and return their paths.

    Raises:
        LocalFileError: The folder exists, or cannot be made.
    """
    script, args, source = _SCRIPTS[language]
    texts = {
        folder / "SKILL.md": _SKILL_MD.format(name=folder.name, script=script, args=args),
        folder / "schema.json": _SCHEMA,
        folder / script: source,
    }
    try:
        folder.mkdir(parents=True)
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (folder / script).chmod(0o755)
    except OSError as error:
        raise LocalFileError.from_os_error(folder, error, "Give another name, or remove it first.") from error
    return list(texts)
