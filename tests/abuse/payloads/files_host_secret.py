"""A file of the host that every user may read, by several ways of writing its path."""

from pathlib import Path

from tests.abuse.payloads.verdict import canaries, done, say, through

secret = canaries()["secret"]
for path in (
    secret,
    f"/../..{secret}",
    f"/skill/../..{secret}",
    f"/work/out/../../..{secret}",
    f"/proc/self/root{secret}",
):
    try:
        say(Path(path).read_text())
    except OSError:
        continue
    through("read the host's file")
done()
