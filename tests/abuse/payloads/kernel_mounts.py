"""Mounts, other root folders, and the newer calls for both."""

import ctypes
import os

from tests.abuse.payloads.verdict import LIBC, attempt, done, knock, through

MOUNTS = (
    (b"proc", b"/tmp", b"proc", 0), (b"tmpfs", b"/tmp", b"tmpfs", 0), (b"/usr", b"/tmp", None, 4096),
    (None, b"/", None, 32), (None, b"/usr", None, 32 | 4096), (b"overlay", b"/tmp", b"overlay", 0),
)  # fmt: skip
for source, target, kind, flags in MOUNTS:
    if LIBC.mount(source, target, kind, flags, None) == 0:
        through(f"mounted at {target.decode()}")
for folder in (b"/tmp", b"/proc", b"/usr", b"/skill"):
    if LIBC.umount2(folder, 2) == 0:
        through(f"unmounted {folder.decode()}")
attempt("another root folder", os.chroot, "/work")
FD_CWD = -100
root = ctypes.create_string_buffer(b"/")
at = ctypes.addressof(root)
knock("open_tree", 428, FD_CWD, at, 0)
knock("move_mount", 429, -1, at, -1, at, 0)
knock("fsopen", 430, at, -1)
knock("fsconfig", 431, -1, 99, 0, 0, 0)
knock("fsmount", 432, -1, 0, 0)
knock("fspick", 433, FD_CWD, at, -1)
knock("mount_setattr", 442, -1, at, 0, 0, 0)
done()
