"""Watching what others do with files: the host's programs are in sight, and opening one would be reported."""

import ctypes
import fcntl
import os
import signal
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, call, done, knock, numbers, through

CALLS = numbers(
    {
        "inotify_init": 253,
        "inotify_add_watch": 254,
        "inotify_rm_watch": 255,
        "inotify_init1": 294,
        "fanotify_mark": 301,
    },
    {"inotify_add_watch": 27, "inotify_rm_watch": 28, "inotify_init1": 26, "fanotify_mark": 263},
)
IN_OPEN = 0x20
signal.signal(signal.SIGIO, signal.SIG_IGN)
watching, _ = call(CALLS["inotify_init1"], 0)
watched = ctypes.create_string_buffer(b"/usr/bin/true")
if watching >= 0 and call(CALLS["inotify_add_watch"], watching, ctypes.addressof(watched), IN_OPEN)[0] >= 0:
    through("watches a program of the host")
for name in sorted(CALLS.keys() - {"inotify_init", "inotify_init1"}):
    knock(name, CALLS[name], -1, 0, 0, 0, 0)
folder = os.open("/usr/bin", os.O_RDONLY)
attempt("is told of reads in a folder of the host", fcntl.fcntl, folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS)
own = Path("/work/own")
own.touch()
attempt("is told who opens a file", fcntl.fcntl, os.open(own, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)
done()
