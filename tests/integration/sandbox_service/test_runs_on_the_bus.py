"""Runs asked for over the bus, of one sandbox: what goes in, and what comes out."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, SecretStr

from skillbus.common.bus.connection import BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import ArgsMode
from skillbus.contracts.message import Content, Empty
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS, RunStatus
from skillbus.standalone.nats_server import open_nats_server

from .conftest import Sandbox, open_real, serve_catalogue

pytestmark = pytest.mark.asyncio(loop_scope="module")

_SHOW_ARGV = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"
_SHOW_STDIN = "import sys\nprint(sys.stdin.read())\n"
_SHOW_FILES = """
import hashlib, json, os, pathlib
folder = pathlib.Path(os.environ["SKILLBUS_IN"])
print(json.dumps({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}))
"""
_WRITE_FILES = """
import os, pathlib
out = pathlib.Path(os.environ["SKILLBUS_OUT"])
(out / "sub").mkdir()
(out / "small.txt").write_text("small")
(out / "sub" / "large.bin").write_bytes(bytes(2_000_000))
"""


def _content(data: bytes, **where: str | bytes) -> Content:
    digest = hashlib.sha256(data).hexdigest()
    return Content.model_validate({"size_bytes": len(data), "sha256": digest, **where})


async def _code(awaited: object) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        await awaited  # type: ignore[misc]  # whatever a test awaits
    return caught.value.code


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Sandbox]:
    """With the real isolation; skipped where the machine has none."""
    folder = tmp_path_factory.mktemp("sandbox")
    async with open_nats_server(folder / "nats") as server:
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        async with open_bus(settings, "tests", CollectorRegistry()) as bus:
            await provision(bus.jetstream)
            async with serve_catalogue(bus) as catalogue, open_real(bus, catalogue, folder) as opened:
                yield opened


async def test_arguments_are_laid_out_as_the_schema_says(sandbox: Sandbox) -> None:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"file": {"type": "string"}, "level": {"type": "integer"}, "verbose": {"type": "boolean"}},
        "x-positional": ["file"],
        "x-flags": {"level": "--log-level"},
    }
    await sandbox.catalogue.put("show", _SHOW_ARGV, schema=schema)
    ran = await sandbox.run("show", args={"level": 3, "verbose": True, "file": "a.txt"})
    assert ran.result == ["a.txt", "--log-level", "3", "--verbose"]
    assert (ran.status, ran.exit_code) == (RunStatus.OK, 0)


async def test_argv_is_passed_as_it_is(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("show", _SHOW_ARGV)
    argv = ["--", "-x", "a b", "你好", "", "$HOME; rm -rf /"]
    assert (await sandbox.run("show", argv=argv)).result == argv


async def test_arguments_come_as_json_on_standard_input(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("show", _SHOW_STDIN, args_mode=ArgsMode.STDIN_JSON)
    args = {"text": "你好\n", "deep": {"list": [1, 2.5, None, True]}}
    assert (await sandbox.run("show", args=args)).result == args
    assert await _code(sandbox.run("show", args=args, stdin="more")) == ErrorCode.INVALID_ARGUMENTS
    assert await _code(sandbox.run("show", argv=["x"])) == ErrorCode.INVALID_ARGUMENTS


async def test_an_action_without_arguments_takes_none(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("show", _SHOW_ARGV, args_mode=ArgsMode.NONE)
    assert (await sandbox.run("show")).result == []
    assert await _code(sandbox.run("show", args={"x": 1})) == ErrorCode.INVALID_ARGUMENTS


async def test_large_output_comes_through_the_object_store(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("say", "print('x' * 1_000_000)\nimport sys\nprint('small', file=sys.stderr)\n")
    ran = await sandbox.run("say")
    assert ran.stdout.object_name == f"{ran.run_id}/stdout"
    assert ran.stdout.inline is None
    said = await sandbox.bytes_of(ran.stdout)
    assert said == b"x" * 1_000_000 + b"\n"
    assert ran.stdout.sha256 == hashlib.sha256(said).hexdigest()
    assert ran.stderr.inline == b"small\n"
    assert (ran.result, ran.truncated) == (None, False)


@pytest.mark.parametrize(("count", "inline"), [(100_000, True), (131_072, True), (131_073, False), (300_000, False)])
async def test_output_of_any_size_fits_the_reply(sandbox: Sandbox, count: int, inline: bool) -> None:
    await sandbox.catalogue.put(
        "say", f"import json, sys\ntext = '1' * {count}\nsys.stdout.write(text)\nsys.stderr.write(text)\n"
    )
    ran = await sandbox.run("say")
    assert (ran.stdout.inline is not None, ran.stderr.inline is not None) == (inline, inline)
    assert len(await sandbox.bytes_of(ran.stderr)) == count


async def test_artifacts_are_kept_in_the_object_store(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("write", _WRITE_FILES)
    ran = await sandbox.run("write")
    kept = {artifact.name: await sandbox.bytes_of(artifact.content) for artifact in ran.artifacts}
    assert kept == {"small.txt": b"small", "sub/large.bin": bytes(2_000_000)}
    assert {artifact.content.object_name for artifact in ran.artifacts} == {
        f"{ran.run_id}/out/small.txt",
        f"{ran.run_id}/out/sub/large.bin",
    }


async def test_files_come_in_the_message_and_through_the_object_store(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("show", _SHOW_FILES)
    small, large = b"small", b"large" * 500_000
    await sandbox.files.put("in/large", large)
    ran = await sandbox.run(
        "show", files={"a": _content(small, inline=small), "b": _content(large, object_name="in/large")}
    )
    assert ran.result == {"a": hashlib.sha256(small).hexdigest(), "b": hashlib.sha256(large).hexdigest()}


async def test_a_file_that_is_not_there_is_not_found(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("show", _SHOW_FILES)
    files = {"a": _content(b"x", object_name="in/none")}
    assert await _code(sandbox.run("show", files=files)) == ErrorCode.NOT_FOUND


async def test_a_file_that_is_not_what_its_digest_says_is_refused(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("show", _SHOW_FILES)
    await sandbox.files.put("in/other", b"other")
    for files in ({"a": _content(b"x", object_name="in/other")}, {"a": _content(b"x", inline=b"y")}):
        assert await _code(sandbox.run("show", files=files)) == ErrorCode.INVALID_REQUEST


async def test_files_that_are_more_than_they_say_are_refused(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("show", _SHOW_FILES)
    large = bytes(40 * 1024 * 1024)
    await sandbox.files.put("in/large", large)
    lies = Content(size_bytes=1, sha256=hashlib.sha256(large).hexdigest(), object_name="in/large")
    assert await _code(sandbox.run("show", files={"a": lies, "b": lies})) == ErrorCode.PAYLOAD_TOO_LARGE
    says = lies.model_copy(update={"size_bytes": 10**9})
    assert await _code(sandbox.run("show", files={"a": says})) == ErrorCode.PAYLOAD_TOO_LARGE


async def test_a_run_ends_before_its_caller_stops_waiting(sandbox: Sandbox) -> None:
    """tool-system.md § SkillsSandboxExecutor: 执行超时"""
    await sandbox.catalogue.put("sleep", "import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    async with asyncio.timeout(4.5):
        ran = await sandbox.run("sleep", timeout_s=4.0)
    assert (ran.status, ran.exit_code) == (RunStatus.TIMEOUT, None)
    assert await sandbox.text_of(ran) == "begun\n"


async def test_a_run_that_fails_is_an_answer(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("fail", "import sys\nprint('no', file=sys.stderr)\nsys.exit(3)\n")
    ran = await sandbox.run("fail")
    assert (ran.status, ran.exit_code, ran.stderr.inline) == (RunStatus.FAILED, 3, b"no\n")


async def test_a_skill_that_is_not_installed_is_not_found(sandbox: Sandbox) -> None:
    assert await _code(sandbox.run("nobody")) == ErrorCode.SKILL_NOT_FOUND


async def test_a_disabled_skill_is_not_run(sandbox: Sandbox) -> None:
    skill = await sandbox.catalogue.put("idle", "print('ran')")
    sandbox.catalogue.skills["idle"] = skill.model_copy(update={"enabled": False})
    assert await _code(sandbox.run("idle")) is ErrorCode.FORBIDDEN


async def test_the_limits_are_told(sandbox: Sandbox) -> None:
    """tool-system.md § SkillsSandboxExecutor: 60秒, 10MB"""
    limits = await sandbox.bus.caller.call(GET_LIMITS, Empty())
    assert (limits.wall_s, limits.output_bytes) == (60.0, 10 * 1024 * 1024)
    assert limits.isolation is not None
    assert "python" in limits.runtimes
    assert json.loads(limits.model_dump_json())["slots"] == 2
