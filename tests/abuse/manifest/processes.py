"""More processes, longer lives, and signals to others."""

from dataclasses import replace
from typing import Final

from skillbus.contracts.sandbox.skill_runs import RunStatus

from ..model import USUAL, Abuse, Weakening
from ..weakening import PROCESSES_SHARED, agent, needs_root, process_1_heeds

_TIMEOUT: Final = frozenset({RunStatus.TIMEOUT})
_ANY: Final = frozenset({RunStatus.OK, RunStatus.FAILED, RunStatus.KILLED, RunStatus.TIMEOUT})
_BRIEF: Final = replace(USUAL, wall_s=0.4)
_SHARED: Final = "the host's process namespace"


def _outlives(payload: str, must: str, shows: str, *argv: str) -> Abuse:
    """It goes on until it is ended, or for a moment where nobody ends it."""
    weakening = Weakening("its time raised", (shows,), limits=USUAL, argv=(*argv, "0.1"))
    return Abuse(payload, payload, must, weakening, (*argv, "15"), _BRIEF, _TIMEOUT)


ABUSES: Final = (
    Abuse(
        "processes_signal_host.py",
        "processes_signal_host.py",
        "no process of the host can be seen or signalled",
        Weakening(_SHARED, ("a process of the host is in sight", "the neighbour is dead"), PROCESSES_SHARED),
    ),
    Abuse(
        "processes_kill_everyone.py",
        "processes_kill_everyone.py",
        "kill(-1) ends nobody outside, and the run is reported",
        Weakening(f"{_SHARED}, and one signal only", ("the neighbour is dead",), PROCESSES_SHARED, argv=("one",)),
        ("everyone",),
    ),
    Abuse(
        "processes_end_process_1.py",
        "processes_end_process_1.py",
        "no signal ends process 1 or keeps the run from being reported",
        Weakening("a process 1 that heeds a signal", ("ended by killed",), (process_1_heeds,)),
    ),
    Abuse(
        "processes_forks.py",
        "processes_forks.py",
        "processes are limited",
        Weakening("their number raised", ("made every child",), limits=replace(USUAL, processes=64)),
        ("20",),
        replace(USUAL, processes=10),
    ),
    Abuse(
        "processes_fork_bomb.sh",
        "processes_fork_bomb.sh",
        "a bomb of them too, and nothing is left of it",
        Weakening("their number raised", ("every process of the bomb",), limits=replace(USUAL, processes=300)),
        limits=replace(USUAL, processes=24, wall_s=0.8),
        ends_by=_ANY,
        behind="processes_forks.py",
    ),
    Abuse(
        "processes_threads.py",
        "processes_threads.py",
        "threads count",
        Weakening("their number raised", ("made every thread",), limits=replace(USUAL, processes=64)),
        ("40",),
        replace(USUAL, processes=16),
    ),
    Abuse(
        "processes_workers.js",
        "processes_workers.js",
        "workers of Node count",
        Weakening("their number raised", ("made every worker",), limits=replace(USUAL, processes=64)),
        ("8",),
        replace(USUAL, processes=14, wall_s=2),
        _ANY,
    ),
    Abuse(
        "processes_daemon.py",
        "processes_daemon.py",
        "a daemon that refuses every signal ends with the run",
        Weakening(_SHARED, ("a process is left",), PROCESSES_SHARED, absent=needs_root),
    ),
    Abuse(
        "processes_hold_output.py",
        "processes_hold_output.py",
        "an orphan that holds the output does not hold the result",
        Weakening(
            "an agent that ends the others late",
            ("the result waited for an orphan",),
            (agent("signal.pidfd_send_signal(", "__import__('time').sleep(1) or signal.pidfd_send_signal("),),
            argv=("0.1",),
        ),
        ("15",),
    ),
    _outlives("processes_refuse_to_end.py", "a tree of spinners that ignores signals ends", "lived on", "3"),
    _outlives("processes_sleepers.sh", "so do children of a shell, in sessions of their own", "slept on"),
    _outlives("processes_stopped.py", "so does a process that is stopped", "was stopped, and woken"),
    _outlives("processes_forks_while_ended.py", "so does a storm of forks, as a whole", "forked on"),
    Abuse(
        "processes_cpu.py",
        "processes_cpu.py",
        "processor time is limited, the warning ignored or not",
        Weakening("its time raised", ("used so much of the processor",), limits=USUAL),
        ("2.3",),
        replace(USUAL, cpu_s=1),
        frozenset({RunStatus.CPU}),
    ),
    Abuse(
        "processes_more_than_given.py",
        "processes_more_than_given.py",
        "no priority and no limit can be raised",
        Weakening("a limit raised", ("so many open files",), limits=replace(USUAL, open_files=8192)),
    ),
    Abuse(
        "processes_limits.js",
        "processes_limits.js",
        "Node has the limits of its run, and cannot raise them",
        Weakening(
            "an agent that sets no limits",
            ("another number of processes", "another number of open files"),
            (agent('agent.limit_this_process(job["rlimits"])', "pass"),),
        ),
        ("33", "77"),
        replace(USUAL, processes=33, open_files=77),
    ),
    Abuse(
        "processes_rlimits.py",
        "processes_rlimits.py",
        "signals that wait, locked memory, queues are limited",
        Weakening(
            "an agent that sets no limits",
            ("queued 600 signals",),
            (agent('agent.limit_this_process(job["rlimits"])', "pass"),),
        ),
    ),
    Abuse(
        "processes_out_of_memory_score.py",
        "processes_out_of_memory_score.py",
        "nobody makes itself the last to go for want of memory",
        Weakening("a value that is allowed", ("set oom_score_adj",), argv=("1000",)),
        ("-1",),
    ),
)  # fmt: skip
