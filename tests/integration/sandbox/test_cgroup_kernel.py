"""`test_cgroup.py` on a kernel booted for it: few machines that develop or test delegate cgroups to whoever runs tests.

User-Mode Linux (Debian's package user-mode-linux) is a kernel that runs as a process of its user, here on the files of
this machine, read-only. Its tree of cgroups belongs to the tests, marked as systemd marks what it gives away.
"""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

ROOT = Path(__file__).parents[3]
KERNEL = shutil.which("linux.uml")
BOOT_AND_RUN_S = 300.0
INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={path}
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
mkdir /sys/fs/cgroup/unit
echo '+cpu +memory +pids' > /sys/fs/cgroup/cgroup.subtree_control
{python} -c "import os; os.setxattr('/sys/fs/cgroup/unit', 'trusted.delegate', b'1')"
echo $$ > /sys/fs/cgroup/unit/cgroup.procs
cd {root}
{python} -m pytest -p no:cacheprovider -q --color=no --basetemp=/var/tmp/tests -k 'not warm' {tests} 2>&1
echo "exit: $?"
{python} -c "import ctypes; ctypes.CDLL(None).reboot(0x4321FEDC)"
"""


@pytest.mark.skipif(KERNEL is None, reason="there is no kernel to boot (Debian: apt-get install user-mode-linux)")
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="its first process reads files as this user")
async def test_a_kernel_with_cgroups_holds_what_is_asked_of_it(tmp_path: Path) -> None:
    init = tmp_path / "init"
    init.write_text(
        INIT.format(
            path=shlex.quote(os.pathsep.join(filter(None, sys.path))),
            python=shlex.quote(sys.executable),
            root=shlex.quote(str(ROOT)),
            tests=shlex.quote(str(Path(__file__).with_name("test_cgroup.py").relative_to(ROOT))),
        )
    )
    init.chmod(0o755)
    booted = await asyncio.create_subprocess_exec(
        *(str(KERNEL), "mem=1G", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet"),
        *("con=null", "con0=null,fd:1", f"umid={uuid4().hex[:12]}", f"uml_dir={tmp_path}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.defpath, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(BOOT_AND_RUN_S):
            out, _ = await booted.communicate()
    finally:
        if booted.returncode is None:
            os.killpg(booted.pid, 9)
            await booted.wait()
    said = out.decode(errors="replace")
    assert "exit: 0" in said, said
    assert " passed" in said
    assert "skipped" not in said, said
