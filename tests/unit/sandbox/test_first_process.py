"""Process 1 of sandboxes, run as a program; of the other architecture by an emulator, where that is installed."""

import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from skillbus.sandbox.adapters.kernel.denied_syscalls import ARCHITECTURES
from skillbus.sandbox.adapters.kernel.first_process import assemble_first_process

EVERY = pytest.mark.parametrize("architecture", ARCHITECTURES)


def command_of(architecture: str, folder: Path) -> list[str]:
    program = folder / "init"
    program.write_bytes(assemble_first_process(ARCHITECTURES[architecture]))
    program.chmod(0o755)
    if architecture == platform.machine():
        return [str(program)]
    emulator = shutil.which(f"qemu-{architecture}-static") or shutil.which(f"qemu-{architecture}")
    if emulator is None:
        pytest.skip(f"there is no emulator of {architecture} on this machine")
    return [emulator, str(program)]


@EVERY
def test_it_says_a_byte_and_ends_with_the_other_side(architecture: str, tmp_path: Path) -> None:
    command = command_of(architecture, tmp_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read(1) == b"\x01"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        process.stdin.close()
        assert process.wait(5) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can list its descriptors")
def test_it_keeps_its_standard_streams_only(tmp_path: Path) -> None:
    command, folder = command_of(platform.machine(), tmp_path), os.open("/", os.O_PATH)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(folder,)
    ) as process:
        os.close(folder)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.read(1)
        assert sorted(os.listdir(f"/proc/{process.pid}/fd")) == ["0", "1", "2"]  # noqa: PTH208 - names
        process.stdin.close()


def test_it_ignores_the_end_of_children_and_handles_no_signal(tmp_path: Path) -> None:
    command = command_of(platform.machine(), tmp_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert int(status["SigCgt"], 16) == 0
        assert int(status["SigIgn"], 16) >> (signal.SIGCHLD - 1) & 1
        assert Path(f"/proc/{process.pid}/mem").stat().st_uid == 0 != os.getpid()
        maps = Path(f"/proc/{process.pid}/maps").read_text() if os.geteuid() == 0 else ""
        assert "rwx" not in maps
        process.kill()
