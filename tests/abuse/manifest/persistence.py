"""What a run leaves for the next one."""

from typing import Final

from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, SKILL

from ..model import ANY_INODES, Abuse, Weakening
from ..weakening import SHARED_TMP, UNFILTERED, agent, without, writable

_SHADOW: Final = """
import os
os.write(1, b"through: the agent imported {name}\\n")
def __getattr__(name): return lambda *_: None
"""
_SHADOWED: Final = (
    "resource",
    "marshal",
    "_signal",
    "_socket",
    "site",
    "sitecustomize",
    "usercustomize",
    "atexit",
    "traceback",
)

ABUSES: Final = (
    Abuse(
        "persistence_of_files.py",
        "persistence_of_files.py",
        "a second run finds no file of the first",
        Weakening("a folder of the host at /tmp", ("found what the last run left in /tmp",), (SHARED_TMP,), ANY_INODES),
        runs=2,
        artifacts=frozenset({"mark"}),
    ),
    Abuse(
        "persistence_of_files.js",
        "persistence_of_files.js",
        "nor does Node, in files or in memory",
        Weakening("a folder of the host at /tmp", ("found what the last run left in /tmp",), (SHARED_TMP,), ANY_INODES),
        runs=2,
        artifacts=frozenset({"mark", "verdict.js", "package.json"}),
    ),
    Abuse(
        "persistence_of_imports.py",
        "persistence_of_imports.py",
        "nor a module",
        Weakening("the skill's folder writable", ("imported what the last run left",), (writable(SKILL),)),
        runs=2,
        ships={"brought.py": "POISONED = False\n"},
    ),
    Abuse(
        "persistence_of_packages.py",
        "persistence_of_packages.py",
        "nor anything in packages that skills share",
        Weakening(
            "the packages' folder writable",
            ("wrote to a package", "found what the last run left in the packages"),
            (writable(DEPS),),
        ),
        runs=2,
        packages=True,
    ),
    Abuse(
        "persistence_of_names.py",
        "persistence_of_names.py",
        "nor a segment, nor a socket",
        Weakening(
            "the host's segments, without the filter",
            ("found the segment that the last run left",),
            (without("--unshare-ipc"), *UNFILTERED),
        ),
        runs=2,
    ),
    Abuse(
        "persistence_of_shadows.py",
        "persistence_of_shadows.py",
        "modules of the skill take no place of the agent's",
        Weakening(
            "an agent that looks there first",
            ("the agent imported resource",),
            (
                agent(
                    'agent.limit_this_process(job["rlimits"])',
                    'sys.path.insert(0, job["path"][0]); sys.modules.pop("resource"); __import__("resource")',
                ),
            ),
        ),
        ships={f"{name}.py": _SHADOW.format(name=name) for name in _SHADOWED},
    ),
)
