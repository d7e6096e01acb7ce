"""Where the last expression of a Node program begins, as Node's own parser sees it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import skillbus.sandbox.adapters.inside

SCRIPT = Path(next(iter(skillbus.sandbox.adapters.inside.__path__)), "program_node.cjs")
VALUES = {
    "1 + 2": 3,
    "const a = 1; a + 1": 2,
    "const a = 1\na\n  + 1": 2,
    "let a = [1]\n;[...a, 2]": [1, 2],
    "for (const i of [1]) {\n  i\n}\n({ done: true });": {"done": True},
    "const f = x => {\n  return x\n}\n\n// the answer; it is a string\nf(`a;\n${'b'}`) // end": "a;\nb",
    "if (true)\n  console.error(1)": None,
    "return 5": 5,
    "const a = 1\n  + 1": None,
    "Promise.resolve([2])": [2],
    "null": None,
    "const s = 'a;b'; s": "a;b",
    "x = 1\n// comment\n;(x)": 1,
    "function f() { return 1 }\nf()": 1,
    "let n = 0\nn++\nn": 1,
    "await 3": 3,
    "const [a] = await Promise.all([4])\na": 4,
    "": None,
    "'use strict'": "use strict",
}
"""Programs and their values; None also for those whose last statement is no expression."""
RUNNER = """
const { runProgram } = require(process.argv[1]);
(async () => {
  const values = [], given = require('fs').readFileSync(0, 'utf8');
  for (const program of JSON.parse(given)) values.push((await runProgram(program)) ?? null);
  console.log(JSON.stringify(values));
})();
"""


def run_programs(*programs: str) -> list[object]:
    """Return the values of programs, all of one Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, "-e", RUNNER, str(SCRIPT)]
    ran = subprocess.run(command, input=json.dumps(programs), capture_output=True, text=True, check=True, timeout=30)
    values: list[object] = json.loads(ran.stdout)
    return values


def test_the_value_of_a_program_is_that_of_its_last_expression() -> None:
    assert dict(zip(VALUES, run_programs(*VALUES), strict=True)) == VALUES


def test_a_long_program_has_a_last_expression_too() -> None:
    program = "const list = []\n" + "list.push(1) // one\n" * 8_000 + "list.length"
    assert run_programs(program) == [8_000]
