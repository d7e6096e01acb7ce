"""Out through other processes: their root folders, working directories and open files."""

from tests.abuse.payloads.verdict import attempt, canaries, done, processes, say

planted = canaries()
for process in processes():
    for way in ("root", "cwd", "task/1/root", "cwd/../../../.."):
        attempt("read the host's file", lambda path: say(path.read_text()), process / (way + planted["secret"]))
done()
