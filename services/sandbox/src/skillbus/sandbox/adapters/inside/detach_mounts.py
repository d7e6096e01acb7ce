"""A program, never imported: `detach_mounts.py <mount point> …` lets go of them in a mount namespace of its own.

It says a line when it is done and keeps the namespace until its standard input ends. What cannot be let go of stays.
"""

import ctypes
import os
import sys

CLONE_NEWNS = 0x00020000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8
"""Source of all: mount(2), umount(2) and unshare(2)."""


def main(points: list[bytes]) -> None:
    """In the order given: what lies on top of another comes first."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise SystemExit(os.strerror(ctypes.get_errno()))
    for point in points:
        libc.umount2(point, MNT_DETACH | UMOUNT_NOFOLLOW)
    os.write(1, b"\n")
    os.read(0, 1)


if __name__ == "__main__":
    main([os.fsencode(point) for point in sys.argv[1:]])
