"""A crash, which the host's own program for crashes would read."""

import os
import resource

from tests.abuse.payloads.verdict import attempt, done, through

attempt("may leave a dump", resource.setrlimit, resource.RLIMIT_CORE, (1 << 20, 1 << 20))
child = os.fork()
if child == 0:
    os.chdir("/work")
    os.abort()
if os.WCOREDUMP(os.waitpid(child, 0)[1]):
    through("left a dump")
done()
