"""Settings of the kernel that can be opened for writing."""

import os
from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done

for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        attempt("opened a setting", os.open, Path(folder, name), os.O_WRONLY)
for path in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/proc/timer_list", "/proc/keys"):
    attempt(f"opened {path}", os.open, path, os.O_RDWR)
for folder in ("/sys/kernel", "/sys/fs/cgroup", "/sys/firmware", "/proc/fs", "/proc/irq", "/proc/bus"):
    for inner, _, names in os.walk(folder):
        for name in names:
            attempt(f"opened a file of {folder}", os.open, Path(inner, name), os.O_WRONLY)
done()
