"""Scripts in the sandbox, with their packages and without a network."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run.spec import RunOutcome, RunSpec

from .conftest import MakeSkill, OpenLayers, needs_npm, needs_uv
from .indexes import Index

PY, JS = Runtime.PYTHON, Runtime.NODE


@pytest.fixture
async def isolation() -> BubblewrapIsolation:
    isolation = BubblewrapIsolation()
    try:
        await isolation.probe()
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")
    return isolation


async def run(
    isolation: BubblewrapIsolation, open_them: OpenLayers, skill: Path, script: str, runtime: Runtime
) -> RunOutcome:
    async with open_them() as layers, layers.open_layer(skill, script, runtime, 30) as layer:
        return await isolation.run(RunSpec(skill, script, runtime, layer=layer))


def python(script: str) -> Mapping[str, str]:
    return {"main.py": script, "requirements.txt": "json\none\n"}


@needs_uv
async def test_python_has_its_packages_behind_the_standard_library_and_the_skill_s_own_modules(
    isolation: BubblewrapIsolation, index: Index, open_them: OpenLayers, make_skill: MakeSkill
) -> None:
    index.put_wheel("json", "1.0", {"json/__init__.py": "raise SystemExit('shadowed')\n"})
    index.put_wheel("one", "1.0", {"one.py": "V = 1\n", "own.py": "raise SystemExit('shadowed')\n"})
    script = "import json, one, own, importlib.metadata as m\nprint(json.dumps([one.V, own.V, m.version('one')]))\n"
    skill = make_skill("a", {**python(script), "own.py": "V = 2\n"})
    outcome = await run(isolation, open_them, skill, "main.py", PY)
    assert (json.loads(outcome.stdout or b"null"), outcome.stderr) == ([1, 2, "1.0"], b"")


@needs_uv
async def test_a_pth_file_of_a_wheel_is_not_executed(
    isolation: BubblewrapIsolation, index: Index, open_them: OpenLayers, make_skill: MakeSkill, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    evil = f"import sys; sys.stderr.write('executed'); open({str(ran)!r}, 'w')\n"
    index.put_wheel("one", "1.0", {"one.py": "V = 1\n", "one.pth": evil, "sitecustomize.py": evil})
    skill = make_skill("a", {"main.py": "import one\nprint(one.V)\n", "requirements.txt": "one\n"})
    outcome = await run(isolation, open_them, skill, "main.py", PY)
    assert (outcome.stdout, outcome.stderr) == (b"1\n", b"")
    assert not ran.exists()


@needs_uv
async def test_packages_cannot_be_written_to(
    isolation: BubblewrapIsolation, index: Index, open_them: OpenLayers, make_skill: MakeSkill
) -> None:
    index.put_wheel("one", "1.0", {"one.py": "V = 1\n"})
    script = (
        "import errno, os\n"
        "for attempt in (lambda: open('/deps/one.py', 'w'), lambda: os.chmod('/deps/one.py', 0o777),\n"
        "                lambda: os.unlink('/deps/one.py'), lambda: os.mkdir('/deps/more')):\n"
        "    try:\n        attempt()\n        print('done')\n"
        "    except OSError as error:\n        print(errno.errorcode[error.errno])\n"
    )
    skill = make_skill("a", {"main.py": script, "requirements.txt": "one\n"})
    outcome = await run(isolation, open_them, skill, "main.py", PY)
    assert outcome.status is RunStatus.OK, outcome.stderr
    assert set(outcome.stdout.split()) == {b"EROFS"}


@needs_npm
@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("lib/main.cjs", "console.log(require('top'))"),
        ("main.js", "console.log(require('@scope/below') + 1)"),
        ("lib/deep/main.mjs", "import top from 'top'; console.log(top)"),
    ],
)
async def test_node_has_its_packages_by_require_and_by_import(
    isolation: BubblewrapIsolation,
    index: Index,
    open_them: OpenLayers,
    make_skill: MakeSkill,
    script: str,
    text: str,
) -> None:
    index.put_npm("@scope/below", "1.0.0", {"index.js": "module.exports = 41"})
    top = {"index.js": "module.exports = require('@scope/below') + 1"}
    index.put_npm("top", "1.0.0", top, dependencies={"@scope/below": "^1.0.0"})
    wanted = {"dependencies": {"top": "1", "@scope/below": "1"}}
    skill = make_skill("a", {script: text, "package.json": json.dumps(wanted)})
    outcome = await run(isolation, open_them, skill, script, JS)
    assert (outcome.stdout, outcome.stderr) == (b"42\n", b"")
