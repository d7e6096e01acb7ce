"""What /proc tells of the host that no program of a skill needs: how it was booted, its disks, keys and interrupts."""

from pathlib import Path

from tests.abuse.payloads.verdict import attempt, done

FILES = (
    "cmdline config.gz consoles diskstats interrupts iomem ioports kallsyms key-users keys modules partitions softirqs "
    "timer_list sys/kernel/random/boot_id"
)
for name in FILES.split():
    attempt(f"read /proc/{name}", Path("/proc", name).read_bytes)
done()
