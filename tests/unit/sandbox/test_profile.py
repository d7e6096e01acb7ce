from dataclasses import replace
from pathlib import Path

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.installation import Installation
from skillbus.sandbox.adapters.bubblewrap.profile import (
    NETWORK_ENVIRONMENT,
    InheritedDescriptors,
    SandboxPlan,
    Warm,
    build_command,
    build_entry,
    change_user,
)
from skillbus.sandbox.adapters.kernel.denied_syscalls import ARCHITECTURES
from skillbus.sandbox.domain.errors import RuntimeMissing
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel

HOST = Installation(
    bwrap=Path("/usr/bin/bwrap"),
    architecture=ARCHITECTURES["x86_64"],
    runtimes={Runtime.PYTHON: Path("/usr/bin/python3")},
    setpriv=Path("/usr/bin/setpriv"),
    links={"/bin": "usr/bin"},
)
PLAN = SandboxPlan(
    HOST,
    IsolationLevel.FULL,
    Limits(work_bytes=1001, tmp_bytes=1002, shm_bytes=1003),
    Path("/srv/skill"),
    Path("/srv/given"),
    InheritedDescriptors(info=6, seccomp=7, files={"/init": 8, "/etc/hosts": 9}),
)

KINDS = ("user", "ipc", "pid", "net", "uts", "cgroup-try")


def text(plan: SandboxPlan) -> str:
    return " ".join(build_command(plan))


def test_every_namespace_is_left_and_every_capability_dropped() -> None:
    flags = set(build_command(PLAN))
    wanted = {f"--unshare-{kind}" for kind in ("user", "ipc", "pid", "net", "uts", "cgroup-try")}
    assert wanted | {"--new-session", "--die-with-parent", "--as-pid-1", "--clearenv", "--disable-userns"} <= flags
    assert "--cap-drop ALL" in text(PLAN)


def test_the_root_is_made_read_only_after_everything_is_in_it_and_every_tmpfs_has_a_size() -> None:
    argv = build_command(PLAN)
    last_mount = max(
        index for index, word in enumerate(argv) if word in {"--tmpfs", "--file", "--ro-bind", "--dir", "--symlink"}
    )
    assert argv.index("/", last_mount) > last_mount
    assert argv[argv.index("/", last_mount) - 1] == "--remount-ro"
    for size, folder in ((1001, "/work"), (1002, "/tmp"), (1003, "/dev/shm")):
        assert f"--size {size} --tmpfs {folder}" in text(PLAN)


def test_of_the_host_only_usr_the_given_folders_and_the_loader_s_cache_are_bound_all_read_only() -> None:
    argv = build_command(replace(PLAN, installation=replace(HOST, loader_cache=True)))
    bound = [argv[index + 1] for index, word in enumerate(argv) if "bind" in word]
    assert bound == ["/usr", "/etc/ld.so.cache", "/proc/sys", "/srv/given", "/srv/skill"]
    assert "--bind" not in argv


def test_files_of_proc_are_masked_after_the_settings_are_made_read_only_and_not_where_there_is_no_proc() -> None:
    plan = replace(PLAN, installation=replace(HOST, hidden=("/proc/cmdline", "/proc/sys/x")))
    settings = "--proc /proc --ro-bind /proc/sys /proc/sys"
    assert f"{settings} --ro-bind /dev/null /proc/cmdline --ro-bind /dev/null /proc/sys/x" in text(plan)
    assert "/dev/null" not in text(replace(plan, level=IsolationLevel.CONTAINER))


def test_programs_of_a_service_that_is_root_begin_as_another_user_without_groups_and_new_privileges() -> None:
    user = "--reuid 64001 --regid 64001 --clear-groups --no-new-privs --"
    assert " ".join(change_user(HOST, 64001)) == f"/usr/bin/setpriv {user}"
    assert change_user(HOST, None) == ()


@pytest.mark.parametrize(
    ("level", "lock", "proc"),
    [
        (IsolationLevel.FULL, True, True),
        (IsolationLevel.FILTERED, False, True),
        (IsolationLevel.CONTAINER, False, False),
    ],
)
def test_a_level_changes_what_it_says_and_nothing_else(level: IsolationLevel, lock: bool, proc: bool) -> None:
    argv = list(build_command(replace(PLAN, level=level)))
    assert ("--disable-userns" in argv, "--proc" in argv) == (lock, proc)
    full = [word for word in build_command(PLAN) if word not in {"--disable-userns", "--proc"}]
    assert [word for word in argv if word not in {"--disable-userns", "--proc"}] in (full, sorted_dirs(full))


def sorted_dirs(full: list[str]) -> list[str]:
    """`full` with the folder /proc made rather than mounted, and no settings in it to be made read-only."""
    at = full.index("/proc")
    assert full[at + 1 : at + 4] == ["--ro-bind", "/proc/sys", "/proc/sys"]
    return [*full[:at], "--dir", "/proc", *full[at + 4 :]]


def test_a_program_that_its_user_cannot_walk_to_is_started_by_its_descriptor() -> None:
    assert build_command(replace(PLAN, descriptors=replace(PLAN.descriptors, bwrap=11)))[0] == "/proc/self/fd/11"


def test_a_language_that_is_not_there_is_named_with_where_it_was_looked_for() -> None:
    with pytest.raises(RuntimeMissing, match="/usr/bin/node"):
        HOST.get_interpreter(Runtime.NODE)


def test_only_a_run_with_a_way_out_sees_its_socket_and_is_told_of_the_proxy() -> None:
    plan = replace(PLAN, egress=Path("/srv/egress"))
    argv = list(build_command(plan))
    bound = argv.index("/srv/egress")
    assert argv[bound - 1 : bound + 2] == ["--ro-bind", "/srv/egress", "/egress"]
    del argv[bound - 1 : bound + 2]
    assert argv == list(build_command(PLAN))
    assert (build_entry(plan).network, build_entry(plan).environment) == (True, NETWORK_ENVIRONMENT)
    assert (build_entry(PLAN).network, build_entry(PLAN).environment) == (False, {})
    assert NETWORK_ENVIRONMENT["https_proxy"] == "http://127.0.0.1:3128"


def test_nobody_in_the_sandbox_may_read_the_program_of_process_1() -> None:
    argv = build_command(PLAN)
    at = argv.index("/init")
    assert argv[at - 4 : at] == ("--perms", "0111", "--file", "8")
    assert argv[-2:] == ("--", "/init")


def test_the_agent_joins_every_namespace() -> None:
    joined = build_entry(PLAN)
    assert (
        joined.namespaces.bit_count() == sum(f"--unshare-{kind}" in text(PLAN) for kind in KINDS) + 1
    )  # of mounts, always


def test_what_waits_starts_with_what_its_runs_need() -> None:
    with_node = replace(HOST, runtimes={**HOST.runtimes, Runtime.NODE: Path("/usr/bin/node")})
    assert build_entry(PLAN).warm is None
    assert build_entry(replace(PLAN, warm=Warm.USUAL)).warm == ()
    assert build_entry(replace(PLAN, warm=Warm.NODE, installation=with_node)).warm == (
        "/usr/bin/node",
        "/node_boot.cjs",
    )
