"""Reading and writing what is not the run's own, and filling what is."""

from dataclasses import replace
from typing import Final

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.run.limits import MIB

from ..model import ANY_INODES, USUAL, Abuse, Weakening
from ..weakening import FOLDER_LEFT_OPEN, SHARED_TMP, SHOWN, added, without

_BOUND: Final = "the canaries' folder shown"
_NO_SECRET: Final = "a file of the host that all may read is not there"


def _fill(payload: str, folder: str, size: str, argv: tuple[str, ...]) -> Abuse:
    raised = replace(USUAL, work_bytes=160 * MIB, tmp_bytes=160 * MIB, shm_bytes=64 * MIB)
    return Abuse(
        name=f"{payload}: {folder}",
        payload=payload,
        must=f"no more than {size} MiB fit into {folder}",
        argv=argv,
        weakening=Weakening("its size raised", (f"{folder} holds more",), limits=raised),
    )


def _inodes(kind: str, folder: str) -> Abuse:
    return Abuse(
        name=f"files_inodes.py: {kind}",
        payload="files_inodes.py",
        must=f"{kind} without content are counted",
        argv=(kind, folder, "2400", "10"),
        limits=replace(USUAL, inodes=800),
        ends_by=frozenset({RunStatus.INODES}),
        weakening=Weakening(
            "their number raised", (f"made so many {kind}",), limits=USUAL, argv=(kind, folder, "2400", "0")
        ),
    )


ABUSES: Final = (
    Abuse(
        "files_host_secret.py",
        "files_host_secret.py",
        _NO_SECRET,
        Weakening(_BOUND, ("read the host's file", "the secret was told"), (SHOWN,)),
    ),
    Abuse(
        "files_host_secret.sh",
        "files_host_secret.sh",
        "nor for a shell and its programs",
        Weakening(_BOUND, ("read by the shell", "read by cat", "the secret was told"), (SHOWN,)),
    ),
    Abuse(
        "files_host_secret.js",
        "files_host_secret.js",
        "nor for Node and its children",
        Weakening(_BOUND, ("read by Node", "read by a child", "read by a shell"), (SHOWN,)),
    ),
    Abuse(
        "files_shipped_link.py",
        "files_shipped_link.py",
        "links in the skill lead nowhere",
        Weakening(_BOUND, ("read over a link", "read over a link to a folder"), (SHOWN,)),
    ),
    Abuse(
        "files_of_the_system.py",
        "files_of_the_system.py",
        "no accounts, homes, logs, devices and kernel interfaces",
        Weakening("/var of the host shown", ("/var", "/var is there"), (added("--ro-bind", "/var", "/var"),)),
    ),
    Abuse(
        "files_write.py",
        "files_write.py",
        "only /work, /tmp and /dev/shm can be written",
        Weakening(
            "without --remount-ro", ("made a folder in /", "made a file in /dev"), (without("--remount-ro"),)
        ),
    ),
    _fill("files_fill.py", "/work", "64", ("/work", "64")),
    _fill("files_fill.py", "/tmp", "64", ("/tmp", "64")),
    _fill("files_fill.py", "/dev/shm", "16", ("/dev/shm", "16")),
    _fill("files_fill.sh", "/work", "64", ("/work", "64")),
    Abuse(
        "files_one_huge.py",
        "files_one_huge.py",
        "one file has a largest size, sparse ones too",
        Weakening(
            "its size raised",
            ("a sparse file of a gibibyte", "one file holds more"),
            limits=replace(USUAL, file_bytes=2048 * MIB),
        ),
    ),
    _inodes("files", "/work"),
    _inodes("folders", "/tmp"),
    _inodes("links", "/dev/shm"),
    Abuse(
        "files_by_process.py",
        "files_by_process.py",
        "no way out through /proc/PID/root and the like",
        Weakening(_BOUND, ("read the host's file", "the secret was told"), (SHOWN,)),
    ),
    Abuse(
        "files_by_descriptor.py",
        "files_by_descriptor.py",
        "no descriptor but the standard three, no folder among them",
        Weakening(
            "a folder of the host left open",
            ("a descriptor was left open", "read the host's file"),
            FOLDER_LEFT_OPEN,
        ),
    ),
    Abuse(
        "files_by_descriptor.js",
        "files_by_descriptor.js",
        "nor does Node get one",
        Weakening("a folder of the host left open", ("a descriptor was left open",), FOLDER_LEFT_OPEN),
    ),
    Abuse(
        "files_devices.py",
        "files_devices.py",
        "no device can be made, and only harmless ones are there",
        Weakening("a device bound in", ("device /work/odd",), (added("--dev-bind", "/dev/null", "/work/odd"),)),
    ),
    Abuse(
        "files_links.py",
        "files_links.py",
        "no hard link to what is only to be read",
        Weakening("a folder of the host at /tmp", ("linked /tmp/theirs",), (SHARED_TMP,), ANY_INODES),
    ),
)  # fmt: skip
