"""What comes back from the output folder."""

from dataclasses import replace
from typing import Final

from skillbus.sandbox.domain.run.limits import MIB

from ..model import USUAL, Abuse, Weakening
from ..weakening import agent

_FOLLOWS: Final = agent(" | os.O_NOFOLLOW", "")

ABUSES: Final = (
    Abuse(
        "artifact_links.py",
        "artifact_links.py",
        "links are not followed, and that is said",
        Weakening("a collector without O_NOFOLLOW", ("artifact above/out/file",), (_FOLLOWS,)),
        artifacts=frozenset({"kept"}),
        leaves_out=True,
    ),
    Abuse(
        "artifact_folder_swapped.py",
        "artifact_folder_swapped.py",
        "nor is the output folder when it is one",
        Weakening("a collector without O_NOFOLLOW", ("artifact artifact_folder_swapped.py",), (_FOLLOWS,)),
        leaves_out=True,
    ),
    Abuse(
        "artifact_odd_files.py",
        "artifact_odd_files.py",
        "FIFOs and sockets do not block the collector",
        Weakening(
            "a collector without O_NONBLOCK",
            ("ended by timeout",),
            (agent(" | os.O_NONBLOCK", ""),),
            replace(USUAL, wall_s=1),
        ),
        artifacts=frozenset({"kept"}),
        leaves_out=True,
    ),
    Abuse(
        "artifact_names.py",
        "artifact_names.py",
        "names that are not safe are left out, and that is said",
        Weakening("harmless names given, which arrive", ("artifact name-0", "artifact name-9"), argv=("harmless",)),
        leaves_out=True,
    ),
    Abuse(
        "artifact_many.py",
        "artifact_many.py",
        "64 artifacts at most",
        Weakening("their number raised", ("more artifacts than their limit",), limits=replace(USUAL, artifacts=200)),
        argv=("100",),
        artifacts=None,
        leaves_out=True,
    ),
    Abuse(
        "artifact_large.py",
        "artifact_large.py",
        "their bytes are limited, sparse or not",
        Weakening(
            "their size raised", ("artifact b-large", "larger artifacts than their limit"), limits=USUAL
        ),
        argv=(str(2 * MIB),),
        limits=replace(USUAL, artifacts_bytes=MIB),
        artifacts=frozenset({"a-small"}),
        leaves_out=True,
    ),
    Abuse(
        "artifact_deep.py",
        "artifact_deep.py",
        "folders that are too deep are left out, and that is said",
        Weakening(
            "a collector without a depth", ("left out without a word",), (agent("DEPTH_MAX = 8", "DEPTH_MAX = 10**9"),)
        ),
        argv=("2000",),
        leaves_out=True,
    ),
    Abuse(
        "artifact_late.py",
        "artifact_late.py",
        "nobody writes while artifacts are collected",
        Weakening(
            "an agent that ends nobody, and waits",
            ("artifact late",),
            (agent("    end_all()\n    return", "    __import__('time').sleep(0.5)\n    return"),),
        ),
    ),
)  # fmt: skip
