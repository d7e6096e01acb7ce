"""What can be seen of networks: interfaces, neighbours, listening ports."""

from pathlib import Path

from tests.abuse.payloads.verdict import canaries, done, through

port = canaries()["tcp"]
try:
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        if not line.strip().startswith("lo:"):
            through("an interface beside loopback")
    for file in ("tcp", "tcp6"):
        if f":{port:04X} " in Path("/proc/net", file).read_text():
            through("a listening port of the host")
    if "@skillbus-abuse" in Path("/proc/net/unix").read_text():
        through("an abstract socket of the host")
except OSError:
    pass
if Path("/sys/class/net").exists():
    through("/sys/class/net")
done()
