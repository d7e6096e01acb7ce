"""Signals to a process of the host, by its number and by a descriptor of it."""

import os
import signal

from tests.abuse.payloads.verdict import attempt, canaries, done

pid = canaries()["pid"]
attempt("a process of the host is in sight", os.kill, pid, 0)
attempt("a descriptor of a process of the host", os.pidfd_open, pid)
attempt("ended a process of the host", os.kill, pid, signal.SIGKILL)
attempt("ended a group of the host", os.killpg, pid, signal.SIGKILL)
attempt("raised its priority", os.setpriority, os.PRIO_PROCESS, pid, 5)
attempt("moved it to another processor", os.sched_setaffinity, pid, {0})
done()
