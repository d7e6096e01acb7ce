"""The programs of `examples/clients` in JavaScript, TypeScript and curl, run against a skillbus in this process."""

import asyncio
import io
import json
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from skillbus.common.bus.events import Delivery, Subscription, consume
from skillbus.contracts.bus_users import JETSTREAM_DOMAIN
from skillbus.contracts.indexer.skills import UPLOAD_TAKEN
from skillbus.contracts.resources import INDEXER_UPLOADS
from skillbus.standalone.nats_server import open_nats_server

from ..deployed_bus import run_deployed_bus
from .conftest import EXAMPLES, ROOT, System
from .node_programs import NEEDS_NODE, Ran, execute, http_environment, install_packages

CLIENT = ROOT / "examples/clients/javascript"

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(180),
    NEEDS_NODE,
]


@dataclass(frozen=True, slots=True)
class JavaScript:
    """The client's folder with its packages, beside a running skillbus."""

    folder: Path
    data: Path

    async def __call__(self, program: str, *arguments: str) -> Ran:
        return await execute("node", program, *arguments, folder=self.folder, SKILLBUS_DATA=str(self.data))


@pytest.fixture(scope="module")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client") / "javascript"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules"))
    asyncio.run(install_packages(folder))
    return folder


@pytest.fixture
def node(client_folder: Path, system: System) -> JavaScript:
    return JavaScript(client_folder, system.data)


def package_of(skill: str, into: Path) -> Path:
    """A zip of an example skill, as anyone would make it."""
    path = into / f"{skill}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for file in sorted((EXAMPLES / skill).rglob("*")):
            if "__pycache__" not in file.parts:
                package.write(file, Path(skill) / file.relative_to(EXAMPLES / skill))
    return path


async def test_a_skill_uploaded_from_javascript_is_found_in_chinese_and_run(node: JavaScript, tmp_path: Path) -> None:
    uploaded = await node("upload.mjs", str(package_of("calculate", tmp_path)))
    found = await node("search.mjs", "计算一个算术表达式", "3")
    ran = await node("run.mjs", "calculate", '{"expression": "(1 + 2) * 3"}')

    assert (uploaded.status, uploaded.stdout.split()[:2]) == (0, ["installed", "calculate"]), uploaded
    assert found.status == 0, found
    assert ["skill", "calculate"] in [line.split()[1:3] for line in found.stdout.splitlines()]
    assert ran.status == 0, ran
    assert "9" in ran.stdout


async def test_a_run_is_followed_from_javascript(node: JavaScript, tmp_path: Path) -> None:
    await node("upload.mjs", str(package_of("calculate", tmp_path)))
    ran = await node("follow.mjs", "calculate", '{"expression": "(1 + 2) * 3"}')

    assert ran.status == 0, ran
    assert json.loads(ran.stdout)["value"] == 9
    assert ran.stderr.startswith("ok in ")


async def test_an_upload_that_is_no_skill_is_told_why(node: JavaScript, tmp_path: Path) -> None:
    path = tmp_path / "empty.zip"
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as package:
            package.writestr("README.md", "nothing here")
        path.write_bytes(buffer.getvalue())

    uploaded = await node("upload.mjs", str(path))

    assert uploaded.status == 1
    assert "SKILL.md" in uploaded.stderr, uploaded


async def test_an_error_reply_is_an_exception_with_the_contracts_code(node: JavaScript) -> None:
    ran = await node("run.mjs", "no-such-skill")
    searched = await node("search.mjs", "   ")

    assert (ran.status, ran.stderr.split(":")[0]) == (1, "skill_not_found"), ran
    assert (searched.status, searched.stderr.split(":")[0]) == (1, "invalid_request"), searched


async def test_vectors_travel_as_float32_in_msgpack(node: JavaScript) -> None:
    embedded = await node("embed.mjs", "帮我提交代码", "commit my changes")

    assert embedded.status == 0, embedded
    assert [line.split("  ")[1:] for line in embedded.stdout.splitlines()] == [["512 dimensions", "length 1.000"]] * 2


async def test_a_request_that_nobody_answers_fails_at_once(client_folder: Path, tmp_path: Path) -> None:
    async with open_nats_server(tmp_path / "nats") as server:
        address = server.address
        ran = await execute(
            "node", "search.mjs", "x", folder=client_folder, NATS_URL=address.url, NATS_TOKEN=address.token
        )

    assert (ran.status, ran.stderr.split(":")[0]) == (1, "unavailable"), ran


PROGRAMS = [
    ("embed.mjs", "x"),
    ("search.mjs", "x"),
    ("run.mjs", "calculate"),
    ("follow.mjs", "calculate"),
    ("upload.mjs", "package.json"),
]


def is_one_line(ran: Ran) -> bool:
    """Not a stack trace."""
    return ran.stdout == "" and len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize("program", [program for program, _ in PROGRAMS])
async def test_a_program_without_its_argument_says_how_it_is_called(client_folder: Path, program: str) -> None:
    ran = await execute("node", program, folder=client_folder)

    assert (ran.status, ran.stderr.split()[:3]) == (2, ["usage:", "node", program]), ran


@pytest.mark.parametrize(("program", "argument"), PROGRAMS)
async def test_a_program_that_finds_no_server_says_so_in_a_line(
    client_folder: Path, tmp_path: Path, program: str, argument: str
) -> None:
    without = await execute("node", program, argument, folder=client_folder, SKILLBUS_DATA=str(tmp_path))

    assert (without.status, is_one_line(without)) == (1, True), without
    assert "connection.json" in without.stderr


async def test_a_server_that_is_not_there_is_told_in_a_line(client_folder: Path) -> None:
    """All programs connect by one function."""
    refused = await execute("node", "search.mjs", "x", folder=client_folder, NATS_URL="nats://127.0.0.1:1")

    assert (refused.status, is_one_line(refused)) == (1, True), refused


async def test_a_package_that_is_not_there_is_told_in_a_line(node: JavaScript, tmp_path: Path) -> None:
    uploaded = await node("upload.mjs", str(tmp_path / "absent.zip"))

    assert (uploaded.status, is_one_line(uploaded)) == (1, True), uploaded
    assert "absent.zip" in uploaded.stderr


async def test_a_program_uploads_with_its_own_key_to_a_deployment_with_accounts(
    client_folder: Path, tmp_path: Path
) -> None:
    with run_deployed_bus(tmp_path / "bus", tls=True) as deployed:
        async with deployed.open_bus("indexer") as indexer:

            async def take(delivery: Delivery) -> None:
                source = json.loads(delivery.body)["name"]
                fact = {"source": source, "outcome": "installed", "name": "calculate"}
                await indexer.jetstream.publish(UPLOAD_TAKEN.subject("calculate"), json.dumps(fact).encode())

            async with consume(indexer, [Subscription(INDEXER_UPLOADS, take)]):
                uploaded = await execute(
                    "node",
                    "upload.mjs",
                    str(package_of("calculate", tmp_path)),
                    folder=client_folder,
                    NATS_URL=deployed.url.replace("127.0.0.1", "localhost"),
                    NATS_SEED_FILE=str(deployed.secrets / "nats-client.seed"),
                    NATS_CA_FILE=str(deployed.secrets / "ca.pem"),
                    NATS_DOMAIN=JETSTREAM_DOMAIN,
                )
    assert (uploaded.status, uploaded.stdout.split()) == (0, ["installed", "calculate"]), uploaded


async def test_a_typescript_client_searches_calls_and_follows(system: System, tmp_path: Path) -> None:
    """The compiler checks its types."""
    folder = tmp_path / "typescript"
    shutil.copytree(ROOT / "examples/clients/typescript", folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    await install_packages(folder)
    compiled = await execute("npx", "--no-install", "tsc", "--skipLibCheck", folder=folder)
    assert compiled.status == 0, compiled
    ran = await execute("node", "dist/search_and_call.js", folder=folder, **http_environment(system))
    assert ran.status == 0, ran
    hits, called = ran.stdout.split("ok ", 1)
    assert "builtin:calculate" in hits
    assert "27" in called
    assert ran.stdout.splitlines()[-2:] == ["event reply", "refused 404 skill_not_found"]


async def test_curl_searches_calls_and_follows(system: System) -> None:
    ran = await execute("./search_and_call.sh", folder=ROOT / "examples/clients/curl", **http_environment(system))
    assert ran.status == 0, ran
    found, called, followed = ran.stdout.split("\n", 2)
    assert "builtin__calculate" in json.loads(found)["names"]
    assert json.loads(called)["is_error"] is False
    assert followed.startswith("event: reply\n")
    assert "1024" in followed
