"""More of the processor, and higher limits, than were given."""

import os
import resource

from tests.abuse.payloads.verdict import attempt, done

attempt("a higher priority", os.nice, -5)
attempt("a real-time class", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(10))
attempt("a class that is served in turns", os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(1))
attempt("so many open files", resource.setrlimit, resource.RLIMIT_NOFILE, (4096, 4096))
for name in ("NPROC", "NOFILE", "AS", "FSIZE", "CPU", "CORE", "MEMLOCK", "MSGQUEUE", "SIGPENDING"):
    kind = getattr(resource, f"RLIMIT_{name}")
    hard = resource.getrlimit(kind)[1]
    attempt(f"a higher limit of {name}", resource.setrlimit, kind, (hard + 1, hard + 1))
done()
