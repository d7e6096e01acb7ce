"""What the service knows and the skill must not."""

from typing import Final

from ..model import Abuse, Weakening
from ..weakening import added, process_1_open

_GIVEN: Final = added("--setenv", "SKILLBUS_CANARY", "{secret}")

ABUSES: Final = (
    Abuse(
        "secrets_environment.py",
        "secrets_environment.py",
        "nothing of the service's environment",
        Weakening("a secret put into it", ("SKILLBUS_CANARY is set", "the secret was told"), (_GIVEN,)),
        offline=True,
    ),
    Abuse(
        "secrets_in_memory.py",
        "secrets_in_memory.py",
        "no memory of the service in the script's process",
        Weakening("a secret put into it", ("a secret is in this process's memory",), (_GIVEN,)),
    ),
    Abuse(
        "secrets_of_processes.py",
        "secrets_of_processes.py",
        "no process in sight carries a secret",
        Weakening(
            "a secret put into a process 1 that can be read",
            ("read another's environ", "the secret was told"),
            (_GIVEN, process_1_open),
        ),
    ),
    Abuse(
        "secrets_of_process_1.py",
        "secrets_of_process_1.py",
        "process 1 cannot be read, nor its descriptors opened",
        Weakening(
            "a process 1 that can be read",
            ("mem of process 1", "environ of process 1", "descriptors of process 1"),
            (process_1_open,),
        ),
    ),
    Abuse(
        "secrets_node.js",
        "secrets_node.js",
        "nor does Node see any of it",
        Weakening(
            "a secret put into the environment, a process 1 that can be read",
            ("SKILLBUS_CANARY is set", "environ of process 1", "the secret was told"),
            (_GIVEN, process_1_open),
        ),
        offline=True,
    ),
)
