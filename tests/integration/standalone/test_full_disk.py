"""A full disk: new data is refused, what is stored can be read and removed, and free space heals it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.background import run_in_background
from skillbus.common.bus import events
from skillbus.common.bus.connection import BusSettings, open_bus
from skillbus.common.bus.disk_space import DiskSpace
from skillbus.common.bus.events import publish_event
from skillbus.common.bus.jetstream import check_jetstream
from skillbus.common.bus.provision import provision
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skills import SKILL_INSTALLED, SkillChanged
from skillbus.contracts.resources import EVENTS
from skillbus.standalone.app import Standalone, StandaloneSettings, StartError, open_standalone
from skillbus.standalone.nats_server import open_nats_server
from skillbus.standalone.storage import StorageWatch

from ...abuse.leftovers import TEST_DISK
from .packages import package

FULL = (507, "storage_full")
LARGE = 300_000
"""Size of a file that does not fit into a message: its package goes through the object store."""


class SmallDisk:
    """A mounted disk, and a file that fills it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Take every free byte, as another program on the disk could."""
        with self._filler.open("ab") as file:
            while free_bytes := self._read_free():
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free_bytes)

    def free(self) -> None:
        self._filler.unlink()

    def _read_free(self) -> int:
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize


MountDisk = Callable[[int], SmallDisk]


@pytest.fixture
def mount_disk(tmp_path: Path) -> Iterator[MountDisk]:
    """Mounts a disk of so many MiB. It is in memory, so that its size is exact and nothing is left of it."""
    path = tmp_path / "disk"

    def mount(size_mib: int) -> SmallDisk:
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", TEST_DISK, str(path)]
        if subprocess.run(command, check=False, capture_output=True).returncode != 0:
            pytest.skip("this user cannot mount a disk")
        return SmallDisk(path)

    yield mount
    if path.is_mount():
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def open_http(standalone: Standalone) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=standalone.http_url, headers=standalone.http_headers, timeout=60, trust_env=False)


async def request_storage(http: httpx.AsyncClient, number: int) -> dict[str, tuple[int, str]]:
    """Status and code of one request of each kind that stores data."""
    name = f"name-{number}"
    tool = {"name": name, "description": "Return the weather of a city.", "tool_type": "mcp", "source": name}
    item = {"type": "business_rule", "title": name, "content": f"The disk has number {number}."}
    provider = {"name": name, "kind": "openai", "base_url": "http://127.0.0.1:9/v1"}
    answers = {
        "tools": await http.put("/api/tools", json={"tools": [tool]}),
        "skill": await http.post("/api/skills", files={"package": ("p.zip", package(name, "Counts words.", LARGE))}),
        "knowledge": await http.post("/api/knowledge", json=item),
        "run": await http.post("/api/skills/name-1/run", json={}),
        "provider": await http.post("/api/embedding/providers", json=provider),
        "key": await http.post("/api/keys", json={"label": name, "projects": ["default"]}),
    }
    return {kind: (answer.status_code, answer.json().get("code", "")) for kind, answer in answers.items()}


async def read_storage(http: httpx.AsyncClient) -> tuple[bool, bool]:
    """Return if `/readyz` reports a ready system, and if it reports room for new data."""
    answer = await http.get("/readyz")
    checks = {check["name"]: check["ready"] for check in answer.json()["checks"]}
    return answer.status_code == 200, checks["storage"]


async def find_names(http: httpx.AsyncClient) -> tuple[set[str], set[str]]:
    tools = await http.post("/api/tools/search", json={"query": "weather of a city", "threshold": 0, "limit": 50})
    items = await http.post("/api/knowledge/search", json={"query": "number of the disk", "threshold": 0})
    return {hit["name"] for hit in tools.json()["results"]}, {hit["item"]["title"] for hit in items.json()["results"]}


async def test_a_full_disk_refuses_new_data_everywhere_also_after_a_restart_until_space_is_freed(
    mount_disk: MountDisk,
) -> None:
    disk = mount_disk(160)
    settings = StandaloneSettings(data=disk.path / "data", http_port=0)
    async with open_standalone(settings) as standalone, open_http(standalone) as http:
        first = await request_storage(http, 1)
        assert {status for status, _ in first.values()} <= {200, 201}, first

        disk.fill()

        refused = await request_storage(http, 2)
        assert set(refused.values()) == {FULL}, refused
        assert await read_storage(http) == (True, False)
        tools, items = await find_names(http)
        assert "name-1" in tools
        assert items == {"name-1"}
    disk.fill()  # what ended has left some space

    async with open_standalone(settings) as standalone, open_http(standalone) as http:
        refused = await request_storage(http, 2)
        assert set(refused.values()) == {FULL}, refused
        assert await find_names(http) == (tools, items)
        assert (await http.delete("/api/skills/name-1")).status_code == 200

        disk.free()

        assert await read_storage(http) == (True, True)
        accepted = await request_storage(http, 3)
        accepted.pop("run")  # its skill was removed
        assert {status for status, _ in accepted.values()} <= {200, 201}, accepted
        tools, items = await find_names(http)
        assert "name-3" in tools
        assert items == {"name-1", "name-3"}


async def test_a_stream_that_a_full_disk_closed_makes_the_system_unready_and_is_healed_when_space_is_freed(
    mount_disk: MountDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_ACK_TIMEOUT_S", 0.5)
    disk = mount_disk(64)
    data = disk.path / "data"
    async with open_nats_server(data / "nats") as server:
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        async with open_bus(settings, "test", CollectorRegistry(), DiskSpace(data)) as bus:
            await provision(bus.jetstream)
            assert (await check_jetstream(bus.client)).ready
            watch = StorageWatch(DiskSpace(data), data, bus, server)

            disk.fill()
            large = SkillChanged(project="default", name="large", digest="0" * 100_000)
            with pytest.raises(RequestError) as refused:
                await publish_event(bus, SKILL_INSTALLED, large, identity="large", message_id="1", project="default")
            assert refused.value.code is ErrorCode.STORAGE_FULL

            closed = await check_jetstream(bus.client)
            assert not closed.ready
            assert EVENTS.name in closed.detail
            await watch.watch_disk()
            await watch.heal_streams()
            first_pid = server.pid
            async with run_in_background(*watch.jobs):
                assert server.pid == first_pid  # a restart without space would help nobody
                disk.free()
                healed = await eventually(lambda: check_jetstream(bus.client), lambda check: check.ready)
            assert healed.detail == ""
            assert server.pid != first_pid
            await bus.jetstream.publish("skillbus.evt.test", b"stored again")


async def test_an_empty_directory_on_a_disk_too_small_is_refused_in_one_line_before_anything_starts(
    mount_disk: MountDisk,
) -> None:
    disk = mount_disk(20)
    with pytest.raises(StartError, match=r"has 20\.0 MiB free, and the start needs 64 MiB: ") as refused:
        async with open_standalone(StandaloneSettings(data=disk.path / "data", http_port=0)):
            pass
    assert "\n" not in str(refused.value)
    assert not (disk.path / "data" / "nats").exists()
