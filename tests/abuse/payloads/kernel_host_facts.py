"""What /proc tells of the host that no program of a skill needs: how and when it was booted, what its disks do."""

from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done

FILES = "cmdline diskstats sys/kernel/random/boot_id"
for name in FILES.split():
    attempt(f"read /proc/{name}", Path("/proc", name).read_bytes)
done()
