"""Container engines: their command lines, what is in a bundle, and what their agent may say."""

import json
import resource
from pathlib import Path

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.gvisor.container import ReportedMeter
from skillbus.sandbox.adapters.gvisor.isolation import (
    GvisorIsolation,
    collect_files,
    make_job,
    make_owner_name,
    measure_folders,
)
from skillbus.sandbox.adapters.gvisor.runsc import (
    AGENT_ARGUMENTS,
    ContainerPlan,
    Runsc,
    ShownFiles,
    make_config,
    make_root,
)
from skillbus.sandbox.adapters.supervision.admission import CachedProbe
from skillbus.sandbox.adapters.supervision.protocol import ProtocolError, make_rlimits
from skillbus.sandbox.domain.errors import RunRejected, SandboxUnavailable
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunSpec
from skillbus.sandbox.domain.run.tool_calls import ToolAccess

LIMITS = Limits(memory_bytes=100 * MIB, work_bytes=8 * MIB, tmp_bytes=4 * MIB, shm_bytes=2 * MIB, processes=40)
PLAN = ContainerPlan("skillbus-run-0-1", LIMITS, {"/skill": MIB, "/in": MIB})
SHOWN = ShownFiles(
    Path("/usr/bin/python3"), ("/usr",), {"/bin": "usr/bin", "/etc/alternatives/awk": "/usr/bin/mawk"}, True
)
ALL_OF_IT = str((100 + 8 + 4 + 2 + 1 + 1 + 64) * MIB)


def config(plan: ContainerPlan = PLAN, cgroup: str | None = None, cpus: float | None = None) -> dict[str, object]:
    written: dict[str, object] = json.loads(json.dumps(make_config(plan, SHOWN, cgroup, cpus)))
    return written


def mounts(plan: ContainerPlan) -> dict[str, dict[str, object]]:
    listed = config(plan)["mounts"]
    assert isinstance(listed, list)
    return {mount["destination"]: mount for mount in listed}


def test_a_bundle_s_process_can_become_another_user_and_do_nothing_else_of_root_s() -> None:
    process = config()["process"]
    assert isinstance(process, dict)
    held = {"CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"}
    assert {kind: set(names) for kind, names in process["capabilities"].items()} == dict.fromkeys(
        ("bounding", "effective", "permitted"), held
    )
    assert process["noNewPrivileges"] is True
    assert process["args"] == ["/usr/bin/python3", *AGENT_ARGUMENTS]
    assert [name.partition("=")[0] for name in process["env"]] == ["PATH"]


def test_a_bundle_s_own_limits_are_those_that_the_agent_cannot_set() -> None:
    process = config()["process"]
    assert isinstance(process, dict)
    wanted = make_rlimits(Runtime.PYTHON, LIMITS)
    for limit in process["rlimits"]:
        assert (limit["soft"], limit["hard"]) == wanted[getattr(resource, limit["type"])]


def test_a_bundle_shows_the_host_s_folders_read_only_and_bounds_what_can_be_written() -> None:
    shown = mounts(PLAN)
    assert config()["root"] == {"path": "rootfs", "readonly": True}
    bound = {path: mount for path, mount in shown.items() if mount["type"] == "bind"}
    assert set(bound) == {"/usr", "/etc/ld.so.cache"}
    assert all("ro" in str(mount["options"]) for mount in bound.values())
    sizes_of = {"/work": 8, "/tmp": 4, "/dev/shm": 2, "/skill": 1, "/in": 1}
    for path, mib in sizes_of.items():
        assert f"size={mib * MIB}" in str(shown[path]["options"])
    assert set(shown) == {*bound, *sizes_of, "/proc", "/dev"}


def test_a_bundle_has_every_namespace_and_a_cgroup_only_where_there_are_cgroups() -> None:
    alone, held = config()["linux"], config(cgroup="/skillbus/a", cpus=0.5)["linux"]
    assert isinstance(alone, dict)
    assert isinstance(held, dict)
    assert {each["type"] for each in alone["namespaces"]} == {"pid", "network", "ipc", "uts", "mount"}
    assert "cgroupsPath" not in alone
    assert held["cgroupsPath"] == "/skillbus/a"
    assert held["resources"] == {"memory": {"limit": int(ALL_OF_IT)}, "cpu": {"period": 100_000, "quota": 50_000}}


def test_packages_of_a_run_are_shown_read_only_where_node_looks_for_them_too(tmp_path: Path) -> None:
    plan = ContainerPlan("a", LIMITS, {"/skill": MIB, "/in": MIB}, Path("/layers/1"))
    make_root(tmp_path / "rootfs", plan, SHOWN)
    assert mounts(plan)["/deps"]["source"] == "/layers/1"
    assert (tmp_path / "rootfs" / "node_modules").readlink() == Path("deps/node_modules")
    assert (tmp_path / "rootfs" / "bin").readlink() == Path("usr/bin")
    assert (tmp_path / "rootfs" / "etc" / "alternatives" / "awk").readlink() == Path("/usr/bin/mawk")


@pytest.mark.parametrize(
    ("rootless", "cgroups", "flags"),
    [(True, True, {"--rootless", "--ignore-cgroups"}), (False, False, {"--ignore-cgroups"}), (False, True, set())],
)
def test_runsc_has_no_network_and_no_cgroup_where_it_cannot(
    rootless: bool, cgroups: bool, flags: set[str], tmp_path: Path
) -> None:
    engine = Runsc(tmp_path, cgroups=cgroups, rootless=rootless)
    command = engine.remove_command("a")
    assert command[-3:] == ("delete", "--force", "a")
    assert set(command[1:-3]) == {"--network=none", f"--root={tmp_path}", *flags}


def test_a_run_is_given_copies_of_its_skill_and_its_files_and_links_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "main.sh").write_text("echo")
    (tmp_path / "scripts" / "main.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("/etc/shadow")
    spec = RunSpec(tmp_path, "scripts/main.sh", Runtime.BASH, ("a b",), files={"in.txt": b"12"})
    folders = collect_files(spec)
    assert sorted(folders["/skill"]) == [("link", 0, b"/etc/shadow"), ("scripts/main.sh", 0o555, b"echo")]
    assert folders["/in"] == [("in.txt", 0o444, b"12")]
    assert measure_folders(folders)["/in"] == MIB + 8192 + 2
    assert make_job(spec, "/bin/bash", folders, b"")["exec"] == ["/bin/bash", "/skill/scripts/main.sh", "a b"]


def test_the_kernel_is_not_asked_to_count_processes_of_a_user_that_all_containers_share(tmp_path: Path) -> None:
    job = make_job(RunSpec(tmp_path, "main.py", Runtime.PYTHON), "python3", {}, b"")
    limits = job["rlimits"]
    assert isinstance(limits, dict)
    assert resource.RLIMIT_NPROC not in limits
    assert resource.RLIMIT_NOFILE in limits
    assert job["processes"] == 64


async def test_the_agent_can_say_that_a_limit_was_passed_and_nothing_else_about_how_a_run_ended() -> None:
    meter = ReportedMeter()
    meter.add_frame(b"P", (7 * MIB).to_bytes(8, "big"))
    meter.add_frame(b"P", MIB.to_bytes(8, "big"))
    meter.add_frame(b"W", b"memory\x00too much")
    assert await meter.watch_limits() == (RunStatus.MEMORY, "too much")
    assert meter.get_usage().peak_bytes == 7 * MIB
    for kind, payload in ((b"W", b"ok\x00fine"), (b"W", b"memory\xff"), (b"P", b"1"), (b"Z", b"")):
        with pytest.raises(ProtocolError):
            ReportedMeter().add_frame(kind, payload)


def test_containers_are_told_by_the_name_of_their_service(tmp_path: Path) -> None:
    one, other = make_owner_name(tmp_path / "a"), make_owner_name(tmp_path / "b")
    assert one == make_owner_name(tmp_path / "a")
    assert one != other
    assert one.startswith("skillbus-run-")


@pytest.mark.parametrize(
    "engine",
    [
        Runsc(Path("/nowhere"), program="no-such-runsc"),
        Runsc(Path("/dev/null/state"), program="true"),
    ],
    ids=["missing", "not runsc"],
)
async def test_an_engine_that_is_not_there_refuses_and_nothing_takes_its_place(engine: Runsc, tmp_path: Path) -> None:
    isolation = GvisorIsolation(engine, "skillbus-run-x-")
    tmp_path.joinpath("main.py").touch()
    for _ in range(2):
        with pytest.raises(SandboxUnavailable) as refused:
            await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON))
        assert engine.program in str(refused.value)


def test_a_skill_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunRejected):
        collect_files(RunSpec(tmp_path / "none", "main.py", Runtime.PYTHON))


async def test_a_program_that_may_call_tools_is_refused_before_it_starts(tmp_path: Path) -> None:
    async def probe() -> IsolationReport:
        return IsolationReport(IsolationLevel.RUNSC, "runsc", {Runtime.PYTHON: Path("/usr/bin/python3")})

    async def ask(_: bytes) -> bytes:
        raise AssertionError("it was started")

    tmp_path.joinpath("main.py").write_text("")
    isolation = GvisorIsolation(Runsc(Path("/nowhere"), program="no-such-runsc"), "tests-")
    isolation._probe = CachedProbe(probe, 1.0)
    with pytest.raises(RunRejected, match="cannot run programs that call tools"):
        await isolation.run(RunSpec(tmp_path, "main.py", Runtime.PYTHON), RunControl(tools=ToolAccess(ask, 1, 1)))
