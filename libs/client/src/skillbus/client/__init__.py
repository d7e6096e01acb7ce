"""Client of skillbus: `Skillbus` and `AsyncSkillbus`, with a method for every route of the HTTP API.

The classes are imported when they are first used: the command line needs only the transport, and the models of all
routes take 0.2 s to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillbus.client.errors import ApiError as ApiError
    from skillbus.client.errors import SkillbusError as SkillbusError
    from skillbus.client.skillbus_client import AsyncSkillbus as AsyncSkillbus
    from skillbus.client.skillbus_client import Skillbus as Skillbus

__all__ = ["ApiError", "AsyncSkillbus", "Skillbus", "SkillbusError"]

_MODULES: Final = {
    "ApiError": "skillbus.client.errors",
    "AsyncSkillbus": "skillbus.client.skillbus_client",
    "Skillbus": "skillbus.client.skillbus_client",
    "SkillbusError": "skillbus.client.errors",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
