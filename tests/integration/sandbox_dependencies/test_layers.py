"""Packages that scripts declare: had once, kept within bounds, refused where they cannot be had."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from pydantic import JsonValue

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.isolation import USER
from skillbus.sandbox.adapters.packages.layer_builders import BuildLimits, LayerBuilder, NpmBuilder, UvBuilder
from skillbus.sandbox.adapters.packages.layers import LayerStore, open_layers
from skillbus.sandbox.domain.errors import DependenciesInvalid, DependenciesUnavailable
from skillbus.sandbox.domain.run.limits import MIB

from .conftest import Interpreters, MakeSkill, OpenLayers, needs_npm, needs_uv
from .indexes import Index, sdist

PY = Runtime.PYTHON
NOISE = bytes(range(256)) * 4096
"""A megabyte."""


def wheel_of(index: Index, name: str, size: int = 0) -> None:
    index.put_wheel(name, "1.0", {f"{name}/__init__.py": f"NAME = '{name}'\n", f"{name}/data.bin": NOISE[:1] * size})


def python_skill(make: MakeSkill, name: str, *packages: str) -> Path:
    return make(name, {"main.py": "print(1)\n", "requirements.txt": "\n".join(packages)})


async def failure(
    layers: LayerStore, folder: Path, script: str = "main.py", runtime: Runtime = PY, within_s: float = 30
) -> str:
    with pytest.raises(DependenciesUnavailable) as caught:
        async with layers.open_layer(folder, script, runtime, within_s):
            pass
    return str(caught.value)


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@needs_uv
async def test_wheels_and_what_they_need_are_had_compiled_and_read_only(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill
) -> None:
    """tool-system.md § SkillsSandboxExecutor"""
    wheel_of(index, "below")
    index.put_wheel("top", "1.0", {"top/__init__.py": "import below\n"}, "below>=1")
    async with (
        open_them() as layers,
        layers.open_layer(python_skill(make_skill, "a", "top"), "main.py", PY, 30) as layer,
    ):
        assert layer is not None
        assert {path.name for path in layer.iterdir()} >= {"below", "top"}
        assert not any(path.stat().st_mode & 0o222 for path in layer.rglob("*") if path.is_file())
        assert list((layer / "top" / "__pycache__").glob("__init__.*.pyc"))


async def test_a_script_that_declares_nothing_has_no_layer(open_them: OpenLayers, make_skill: MakeSkill) -> None:
    async with open_them() as layers, layers.open_layer(make_skill("a", {"main.py": "1"}), "main.py", PY, 1) as layer:
        assert layer is None


@needs_uv
async def test_runs_that_ask_at_once_and_skills_with_equal_requirements_share_one_build(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path
) -> None:
    wheel_of(index, "shared")
    one, other = python_skill(make_skill, "a", "Shared >= 1"), python_skill(make_skill, "b", "shared>=1 # same")
    async with open_them() as layers, AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(stack.enter_async_context(layers.open_layer(folder, "main.py", PY, 30)))
                for folder in (one, other, one, other)
            ]
        assert len({task.result() for task in asked}) == 1
    assert index.asked.count("/simple/shared/") == 1
    assert len(kept(folder)) == 1


@needs_uv
async def test_a_layer_outlives_the_service_and_what_was_half_built_does_not(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path
) -> None:
    wheel_of(index, "one")
    skill = python_skill(make_skill, "a", "one")
    async with open_them() as layers, layers.open_layer(skill, "main.py", PY, 30):
        pass
    before = kept(folder)
    (folder / ".half").mkdir()
    (folder / ("f" * 64) / "deps").mkdir(parents=True)
    index.served.clear()
    async with open_them() as layers:
        assert kept(folder) == before
        async with layers.open_layer(skill, "main.py", PY, 30) as layer:
            assert layer is not None
            assert (layer / "one" / "__init__.py").is_file()


@needs_uv
async def test_the_least_recently_used_goes_first_and_none_that_is_in_use(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path
) -> None:
    for name in ("one", "two", "three"):
        wheel_of(index, name, 3 * MIB)
    skills = {name: python_skill(make_skill, name, name) for name in ("one", "two", "three")}
    async with open_them(total_bytes=8 * MIB) as layers:
        async with layers.open_layer(skills["one"], "main.py", PY, 30) as first:
            async with layers.open_layer(skills["two"], "main.py", PY, 30):
                assert "no space" in await failure(layers, skills["three"])
            assert first is not None
            assert (first / "one").is_dir()
        assert len(kept(folder)) == 2
    async with open_them(total_bytes=8 * MIB) as layers:
        async with layers.open_layer(skills["one"], "main.py", PY, 30):
            pass
        async with layers.open_layer(skills["three"], "main.py", PY, 30):
            pass
        listed = [json.loads(path.read_text())["listed"] for path in folder.glob("*/layer.json")]
        assert sorted(listed) == ["one\n", "three\n"]


@needs_uv
async def test_a_package_that_is_not_there_is_told_in_the_resolver_s_words(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path
) -> None:
    async with open_them() as layers:
        said = await failure(layers, python_skill(make_skill, "a", "nowhere-to-be-found"))
        assert "nowhere-to-be-found" in said
        asked = len(index.asked)
        assert await failure(layers, python_skill(make_skill, "b", "nowhere_to_be_found")) == said
        assert len(index.asked) == asked, "a failure is remembered for a while"
    assert kept(folder) == []


@needs_uv
async def test_a_source_distribution_is_refused_and_its_code_does_not_run(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    index.put_file("src", "src-1.0.tar.gz", sdist("src", "1.0", f"open({str(ran)!r}, 'w')"))
    async with open_them() as layers:
        assert "wheels" in (await failure(layers, python_skill(make_skill, "a", "src"))).lower()
    assert not ran.exists()


@needs_uv
async def test_a_hash_that_does_not_fit_is_refused(index: Index, open_them: OpenLayers, make_skill: MakeSkill) -> None:
    digest = index.put_wheel("one", "1.0", {"one.py": "1"})
    async with open_them() as layers:
        said = await failure(layers, python_skill(make_skill, "a", f"one==1.0 --hash=sha256:{'0' * 64}"))
        assert "hash" in said.lower()
        fitting = python_skill(make_skill, "b", f"one==1.0 --hash=sha256:{digest}")
        async with layers.open_layer(fitting, "main.py", PY, 30) as layer:
            assert layer is not None


@needs_uv
@pytest.mark.parametrize("one_file", [True, False])
async def test_a_wheel_that_unpacks_to_more_than_the_limit_is_refused_and_leaves_nothing(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path, one_file: bool
) -> None:
    content = {"huge/data.bin": bytes(24 * MIB)} if one_file else {f"huge/{n}.bin": bytes(MIB) for n in range(12)}
    index.put_wheel("huge", "1.0", content)
    async with open_them() as layers:
        assert await failure(layers, python_skill(make_skill, "a", "huge"))
    assert kept(folder) == []


@needs_uv
async def test_an_index_that_hangs_costs_a_run_its_own_time_and_the_build_its_limit(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path
) -> None:
    index.hangs = True
    skill = python_skill(make_skill, "a", "one")
    async with open_them(wall_s=1.5) as layers:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert "still being fetched" in await failure(layers, skill, within_s=0.2)
        assert loop.time() - began < 1.2
        assert "1.5 s" in await failure(layers, skill)
        assert loop.time() - began < 5
    assert kept(folder) == []


@needs_uv
async def test_a_password_of_the_index_reaches_the_index_and_nobody_else(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel_of(index, "one")
    url = index.simple.replace("//", "//builder:s3kr%40t@")
    async with open_them(url=url) as layers:
        said = await failure(layers, python_skill(make_skill, "bad", "nowhere"))
        async with layers.open_layer(python_skill(make_skill, "a", "one"), "main.py", PY, 30) as layer:
            assert layer is not None
    assert "builder:s3kr@t" in index.credentials
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    told = said + stored.decode(errors="replace") + "".join(capfd.readouterr())
    assert "s3kr" not in told


@needs_uv
async def test_a_password_is_not_in_the_words_about_an_index_that_cannot_be_reached(
    open_them: OpenLayers, make_skill: MakeSkill
) -> None:
    async with open_them(url="http://builder:s3kr%40t@127.0.0.1:1/simple") as layers:
        assert "s3kr" not in await failure(layers, python_skill(make_skill, "a", "one"))


@needs_uv
async def test_a_script_for_another_python_says_so(open_them: OpenLayers, make_skill: MakeSkill) -> None:
    text = "# /// script\n# requires-python = '<3.5'\n# dependencies = ['one']\n# ///\n"
    async with open_them() as layers:
        with pytest.raises(DependenciesInvalid, match=r"Python <3\.5"):
            async with layers.open_layer(make_skill("a", {"main.py": text}), "main.py", PY, 5):
                pass


async def test_a_machine_without_uv_and_npm_says_so(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    skill = make_skill("a", {"requirements.txt": "one", "package.json": '{"dependencies": {"one": "1"}}'})
    async with open_them() as layers:
        assert "uv is not installed" in await failure(layers, skill, "main.py", PY)
        assert "npm is not installed" in await failure(layers, skill, "main.js", Runtime.NODE)


def node_skill(make: MakeSkill, name: str, lock: object = None, **dependencies: str) -> Path:
    files = {"main.js": "1", "package.json": json.dumps({"dependencies": dependencies})}
    return make(name, files if lock is None else {**files, "package-lock.json": json.dumps(lock)})


@needs_npm
async def test_packages_of_node_are_had_and_their_scripts_do_not_run(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, tmp_path: Path
) -> None:
    """tool-system.md § SkillsSandboxExecutor"""
    ran = tmp_path / "ran"
    scripts: dict[str, JsonValue] = dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), f"touch {ran}")
    index.put_npm(
        "top", "1.1.0", {"index.js": "module.exports = require('below')"}, dependencies={"below": "^1"}, scripts=scripts
    )
    index.put_npm("below", "1.0.0", {"index.js": "module.exports = 42"})
    skill = node_skill(make_skill, "a", top="^1.0.0")
    async with open_them() as layers, layers.open_layer(skill, "main.js", Runtime.NODE, 30) as layer:
        assert layer is not None
        assert {path.name for path in (layer / "node_modules").iterdir()} == {"top", "below"}
    assert not ran.exists()


@needs_npm
async def test_a_lock_of_node_is_followed_and_its_integrity_holds(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill
) -> None:
    integrity = index.put_npm("one", "1.0.0", {"index.js": "1"})
    other = index.put_npm("one", "1.5.0", {"index.js": "2"})

    def lock(integrity: str) -> dict[str, object]:
        entry = {"version": "1.0.0", "integrity": integrity, "resolved": "https://elsewhere.example/one-1.0.0.tgz"}
        return {"lockfileVersion": 3, "packages": {"": {"dependencies": {"one": "^1"}}, "node_modules/one": entry}}

    async with open_them() as layers:
        skill = node_skill(make_skill, "a", lock(integrity), one="^1")
        async with layers.open_layer(skill, "main.js", Runtime.NODE, 30) as layer:
            assert layer is not None
            assert json.loads((layer / "node_modules/one/package.json").read_text())["version"] == "1.0.0"
        bad = node_skill(make_skill, "b", lock(other), one="^1")
        assert "ntegrity" in await failure(layers, bad, "main.js", Runtime.NODE)


@needs_npm
@pytest.mark.parametrize(("version", "refused"), [("11.13.0", True), ("10.99.0", True), ("11.14.0", False)])
async def test_an_npm_that_follows_packages_to_other_addresses_is_refused_before_it_fetches(
    index: Index, make_skill: MakeSkill, folder: Path, version: str, refused: bool
) -> None:
    old = folder / "npm"
    warning = "npm warn cli npm does not support Node.js v18.19.0"
    answer = f"echo {warning} >&2; echo {version}; echo {warning} >&2"
    old.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {answer}; else exec npm "$@"; fi\n')
    old.chmod(0o755)
    index.put_npm("one", "1.0.0", {"index.js": "1"})
    builder = NpmBuilder(index.npm, BuildLimits(30, 8 * MIB), str(old))
    skill = node_skill(make_skill, "a", one="1")
    async with open_layers(folder / "layers", {Runtime.NODE: builder}, 64 * MIB, Interpreters()) as layers:
        if refused:
            said = await failure(layers, skill, "main.js", Runtime.NODE)
            assert said.startswith(f"npm {version} cannot be kept to the registry")
            assert ("11.14 or newer" in said, "--allow-remote" in said) == (True, True)
            assert index.asked == []
        else:
            async with layers.open_layer(skill, "main.js", Runtime.NODE, 30) as layer:
                assert layer is not None


@needs_npm
@pytest.mark.parametrize("wanted", ["http://127.0.0.1:{port}/evil.tgz", "git+http://127.0.0.1:{port}/evil.git"])
async def test_what_a_package_of_node_wants_from_elsewhere_is_refused(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, wanted: str
) -> None:
    index.put_npm("one", "1.0.0", {"index.js": "1"}, dependencies={"evil": wanted.format(port=index.port)})
    async with open_them() as layers:
        assert await failure(layers, node_skill(make_skill, "a", one="1"), "main.js", Runtime.NODE)
    assert not any("evil" in path for path in index.asked)


@needs_npm
async def test_a_package_of_node_that_is_not_there_is_told_without_the_password(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path
) -> None:
    index.put_npm("one", "1.0.0", {"index.js": "1"})
    async with open_them(url=index.npm.replace("//", "//builder:s3kr%40t@", 1)) as layers:
        said = await failure(layers, node_skill(make_skill, "a", nowhere="1"), "main.js", Runtime.NODE)
        assert "nowhere" in said
        async with layers.open_layer(node_skill(make_skill, "b", one="1"), "main.js", Runtime.NODE, 30):
            pass
    assert "builder:s3kr@t" in index.credentials
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert "s3kr" not in said + stored.decode(errors="replace")


@pytest.fixture
def uv_that(folder: Path) -> Iterator[Callable[[str], LayerBuilder]]:
    """A builder whose uv is a shell script."""
    program = folder.parent / f"{folder.name}-uv"

    def make(script: str) -> LayerBuilder:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return UvBuilder(None, BuildLimits(10, MIB), str(program))

    yield make
    program.unlink()


@pytest.mark.parametrize("python", ["/nowhere/python3", "/bin/true", "/bin/false"])
async def test_an_interpreter_that_does_not_tell_what_it_is_has_no_packages(
    make_skill: MakeSkill, folder: Path, uv_that: Callable[[str], LayerBuilder], python: str
) -> None:
    async with open_layers(folder / "layers", {PY: uv_that("true")}, MIB, Interpreters(Path(python))) as layers:
        assert python in await failure(layers, python_skill(make_skill, "a", "one"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only a service that is root has users to give")
async def test_a_service_that_is_root_fetches_as_a_user_who_owns_nothing_else(
    make_skill: MakeSkill, folder: Path, uv_that: Callable[[str], LayerBuilder]
) -> None:
    builder = uv_that("id -u > deps/user\ngrep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status > deps/rights")
    skill = python_skill(make_skill, "a", "one")
    async with (
        open_layers(folder / "layers", {PY: builder}, MIB, Interpreters()) as layers,
        layers.open_layer(skill, "main.py", PY, 10) as layer,
    ):
        assert layer is not None
        user = (layer / "user").read_text().strip()
        rights = dict(line.split() for line in (layer / "rights").read_text().splitlines())
        owners = {path.stat().st_uid for path in (layer, *layer.iterdir())}
    assert int(user) not in {0, USER}
    assert rights == {"NoNewPrivs:": "1", "CapEff:": "0" * 16, "CapBnd:": "0" * 16}
    assert owners == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only a service that is root has users to give")
async def test_a_service_that_is_root_never_fetches_as_root(make_skill: MakeSkill, folder: Path) -> None:
    hidden = folder / "hidden"
    hidden.mkdir(mode=0o700)
    program = hidden / "uv"
    program.write_text("#!/bin/sh\nid -u >deps/user\n")
    program.chmod(0o755)
    builder = UvBuilder(None, BuildLimits(10, MIB), str(program))
    async with open_layers(folder / "layers", {PY: builder}, MIB, Interpreters()) as layers:
        said = await failure(layers, python_skill(make_skill, "a", "one"))
    assert f"{program} would run as root" in said


@pytest.mark.parametrize(
    "made",
    [
        "ln -s /etc/hostname deps/x",
        "mkfifo deps/x",
        "rmdir deps; ln -s /etc deps",
        "mkdir deps/a; ln -s / deps/a/x",
        "rmdir deps; touch deps",
    ],
)
async def test_what_is_no_regular_file_makes_no_layer(
    make_skill: MakeSkill, folder: Path, uv_that: Callable[[str], LayerBuilder], made: str
) -> None:
    async with open_layers(folder / "layers", {PY: uv_that(made)}, MIB, Interpreters()) as layers:
        assert "special file" in await failure(layers, python_skill(make_skill, "a", "one"))
    assert kept(folder / "layers") == []


async def test_a_program_that_writes_on_and_on_is_ended(
    make_skill: MakeSkill, folder: Path, uv_that: Callable[[str], LayerBuilder]
) -> None:
    script = "for n in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > deps/$n; done; sleep 30"
    async with (
        asyncio.timeout(5),
        open_layers(folder / "layers", {PY: uv_that(script)}, 8 * MIB, Interpreters()) as layers,
    ):
        assert "larger than their limit" in await failure(layers, python_skill(make_skill, "a", "one"))
    assert kept(folder / "layers") == []


async def test_a_program_that_writes_one_file_on_and_on_is_ended(
    make_skill: MakeSkill, folder: Path, uv_that: Callable[[str], LayerBuilder]
) -> None:
    script = "head -c 20000000 /dev/zero > deps/x; stat -c %s deps/x; exit 7"
    async with open_layers(folder / "layers", {PY: uv_that(script)}, 8 * MIB, Interpreters()) as layers:
        assert str(2 * MIB) in await failure(layers, python_skill(make_skill, "a", "one"))


ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only a service that is root ends a namespace")


@pytest.mark.parametrize("begin", ["", pytest.param("setsid ", marks=ROOT_ONLY)])
async def test_a_program_that_leaves_others_behind_ends_with_all_of_them(
    make_skill: MakeSkill, folder: Path, uv_that: Callable[[str], LayerBuilder], begin: str
) -> None:
    # /proc/self is the process in the host's numbering.
    left = "read pid rest </proc/self/stat; echo $pid >deps/left; exec sleep 30"
    builder = uv_that(f"{begin}sh -c '{left}' &\nuntil [ -s deps/left ]; do :; done")
    skill = python_skill(make_skill, "a", "one")
    async with (
        asyncio.timeout(5),
        open_layers(folder / "layers", {PY: builder}, MIB, Interpreters()) as layers,
        layers.open_layer(skill, "main.py", PY, 5) as layer,
    ):
        assert layer is not None
        await eventually(partial(is_gone, int((layer / "left").read_text())), bool)


async def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True


@needs_uv
async def test_a_build_ends_with_the_service_and_leaves_nothing(
    index: Index, open_them: OpenLayers, make_skill: MakeSkill, folder: Path
) -> None:
    index.hangs = True
    async with open_them() as layers:
        await failure(layers, python_skill(make_skill, "a", "one"), within_s=0.3)
        assert kept(folder)
    assert kept(folder) == []
