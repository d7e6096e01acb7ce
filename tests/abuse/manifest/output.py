"""What a run prints, and what is made of it."""

from dataclasses import replace
from typing import Final

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.domain.run.limits import MIB

from ..model import USUAL, Abuse, Weakening
from ..weakening import agent

_LEFT_OPEN: Final = agent('agent.close_from(CHANNEL + job["channel"])', "os.set_inheritable(agent.control, True)")
_SMALL: Final = replace(USUAL, output_bytes=MIB)
_FLOODS: Final = {"1": "standard output", "2": "standard error", "12": "the sum of both"}
_NO_JSON: Final = {
    "bytes": "bytes that are no text",
    "deep": "lists nested without end",
    "deep objects": "objects nested without end",
    "digits": "numbers without end",
    "infinite": "numbers beyond a float",
    "not a number": "NaN",
    "surrogate": "lone surrogates",
    "twice": "two values",
}


def _flood(name: str, payload: str, must: str, *argv: str) -> Abuse:
    return Abuse(
        name,
        payload,
        f"{must} is cut exactly at the limit",
        Weakening("its limit raised", ("more output than its limit", "ended by ok"), limits=USUAL),
        argv,
        _SMALL,
        frozenset({RunStatus.OUTPUT}),
        leaves_out=True,
    )


def _no_json(argument: str, must: str) -> Abuse:
    return Abuse(
        f"output_no_json.py: {argument}",
        "output_no_json.py",
        f"{must}: no result, and no error of the service",
        Weakening("JSON given", ("taken for a result",), argv=("harmless",)),
        (argument,),
        silent=True,
    )


ABUSES: Final = (
    *(_flood(f"output_flood.py: {of}", "output_flood.py", must, of, "40") for of, must in _FLOODS.items()),
    _flood("output_flood.sh", "output_flood.sh", "what a shell's children print", "1500000"),
    *(_no_json(argument, must) for argument, must in _NO_JSON.items()),
    Abuse(
        "output_forged.py",
        "output_forged.py",
        "a script cannot report its own end",
        Weakening(
            "an agent that leaves its socket open",
            ("ended by ok",),
            (_LEFT_OPEN,),
        ),
        ends_by=frozenset({RunStatus.FAILED}),
        silent=True,
    ),
    Abuse(
        "output_forged.js",
        "output_forged.js",
        "nor Node its own",
        Weakening("an agent that leaves its socket open", ("ended by ok",), (_LEFT_OPEN,)),
        ends_by=frozenset({RunStatus.FAILED}),
        silent=True,
    ),
)
