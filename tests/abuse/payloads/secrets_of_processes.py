"""What other processes carry: their environment, their command lines, where they are."""

import os

from tests.abuse.payloads.verdict import done, processes, say, through

for process in processes():
    if process.name == str(os.getpid()):
        continue
    for file in ("environ", "cmdline", "task/1/environ", "auxv", "stack"):
        try:
            read = (process / file).read_bytes()
        except OSError:
            continue
        say(read.decode(errors="replace").replace("\0", " "))
        if b"canary" in read:
            through(f"read another's {file}")
if len(processes()) > 8:
    through("strangers are in sight")
done()
