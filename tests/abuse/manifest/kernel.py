"""The kernel's own surface: what a filter closes, and what privileges would open."""

import os
import platform
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

from ..model import Abuse, Weakening
from ..weakening import UNFILTERED, added, agent, proc_unmasked, process_1_open, without

_ROOT: Final = Path(__file__).parents[3]
_FIRST_NEWER: Final = 451
"""cachestat, of Linux 6.5."""
_NO_FILTER: Final = "without the filter"
_OPEN: Final = (without("--disable-userns"), *UNFILTERED)


def _closed(payload: str, must: str, *shows: str) -> Abuse:
    return Abuse(payload, payload, must, Weakening(_NO_FILTER, shows, UNFILTERED))


def _has_no_abi(payload: str) -> str | None:
    """Why a foreign ABI cannot be shown: the payload does not get through with no sandbox at all."""
    if platform.machine() != "x86_64":
        return "there is no such ABI on this processor"
    command = [sys.executable, f"tests/abuse/payloads/{payload}"]
    done = subprocess.run(command, cwd=_ROOT, env={"PYTHONPATH": "."}, capture_output=True, check=True, timeout=20)
    return None if b"through" in done.stdout else "this kernel does not know the ABI"


def _is_old() -> str | None:
    major, minor = (int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return None if (major, minor) >= (6, 5) else "this kernel has no call that the filter does not know"


def _foreign(payload: str, must: str, shows: str) -> Abuse:
    absent = partial(_has_no_abi, payload)
    return Abuse(payload, payload, must, Weakening(_NO_FILTER, (shows,), UNFILTERED, absent=absent))


ABUSES: Final = (
    Abuse(
        "kernel_namespaces.py",
        "kernel_namespaces.py",
        "no namespace inside, by any of the calls for it",
        Weakening(
            "without the filter and --disable-userns",
            ("unshared the user namespace", "cloned into a new user namespace", "cloned by clone3"),
            _OPEN,
        ),
    ),
    Abuse(
        "kernel_userns_tools.sh",
        "kernel_userns_tools.sh",
        "nor by the programs for it, nor an overlay in one",
        Weakening("without the filter and --disable-userns", ("root in a new namespace",), _OPEN),
    ),
    _closed("kernel_mounts.py", "no mount and no other root, by the old calls and the new", "open_tree", "fsconfig"),
    Abuse(
        "kernel_other_processes.py",
        "kernel_other_processes.py",
        "no other process can be traced, and every one is filtered",
        Weakening(
            "without the filter, a process 1 that can be read",
            ("traced a neighbour", "a process without a filter", "opened the memory of process 1"),
            (*UNFILTERED, process_1_open),
        ),
    ),
    _closed("kernel_calls.py", "37 calls that no script needs are closed", "keyctl", "add_key", "mq_open"),
    Abuse(
        "kernel_newer_calls.py",
        "kernel_newer_calls.py",
        "calls newer than the filter's table are closed",
        Weakening(_NO_FILTER, ("a call of a newer kernel",), UNFILTERED, absent=_is_old),
        (str(_FIRST_NEWER),),
    ),
    _closed("kernel_terminal.py", "no keys for the service's terminal", "TIOCSTI came to the kernel"),
    _closed("kernel_privileges.py", "no capability, no other user, no way to gain them", "no filter"),
    _closed("kernel_privileges.sh", "nor for a shell and its programs", "no filter"),
    _closed("kernel_privileges.js", "nor for any thread of Node", "no filter"),
    _foreign("kernel_i386.py", "no calls of 32-bit programs", "a call of 32 bits was answered"),
    _foreign("kernel_x32.py", "no calls of x32", "a call of x32 was answered"),
    Abuse(
        "kernel_settings.py",
        "kernel_settings.py",
        "no setting of the kernel can be written",
        Weakening(
            "a writable folder where settings are",
            ("opened a setting",),
            (added("--bind", "{shared}", "/proc/sys/fs"),),
        ),
    ),
    _closed(
        "kernel_watches.py",
        "nobody is told when the host opens a file",
        "watches a program of the host",
        "is told of reads in a folder of the host",
        "is told who opens a file",
    ),
    Abuse(
        "kernel_host_facts.py",
        "kernel_host_facts.py",
        "/proc tells neither how the host was booted, nor which boot it is, nor what its disks do",
        Weakening(
            "without the masks of /proc",
            ("read /proc/cmdline", "read /proc/diskstats", "read /proc/sys/kernel/random/boot_id"),
            (proc_unmasked,),
        ),
    ),
    Abuse(
        "kernel_cgroups.sh",
        "kernel_cgroups.sh",
        "no control group can be made or changed",
        Weakening(
            "a writable folder where they are",
            ("a control group can be changed", "made a control group"),
            (added("--bind", "{shared}", "/sys/fs/cgroup"),),
        ),
    ),
    Abuse(
        "kernel_core_dump.py",
        "kernel_core_dump.py",
        "a crash leaves no dump",
        Weakening(
            "an agent that sets no limits",
            ("may leave a dump",),
            (agent('agent.limit_this_process(job["rlimits"])', "pass"),),
        ),
    ),
    _closed("kernel_personality.py", "no other personality", "addresses that stay", "all is executable"),
    Abuse(
        "kernel_host_segment.py",
        "kernel_host_segment.py",
        "no shared memory of the host",
        Weakening(
            "the host's segments, without the filter",
            ("found a segment of the host",),
            (without("--unshare-ipc"), *UNFILTERED),
        ),
    ),
)
