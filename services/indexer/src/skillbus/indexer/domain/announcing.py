"""Port to those who want to hear of changes."""

from typing import Literal, Protocol

import structlog

from skillbus.contracts.errors import RequestError
from skillbus.contracts.index_switch import IndexSwitch
from skillbus.contracts.indexer import Finding
from skillbus.indexer.domain.record import SkillRecord
from skillbus.indexer.domain.tool_record import ToolRecord

log = structlog.get_logger(__name__)

Outcome = Literal["installed", "updated", "unchanged"]
"""What became of a package."""
Change = Literal["installed", "updated", "indexed"]


class Announcer(Protocol):
    """Tells the rest of the system what happened. Methods return when it cannot be lost any more."""

    async def changed(self, change: Change, record: SkillRecord) -> None:
        """A skill was installed, updated or indexed."""
        ...

    async def removed(self, record: SkillRecord) -> None:
        """A skill was uninstalled."""
        ...

    async def taken(self, source: str, outcome: Outcome, record: SkillRecord) -> None:
        """An upload was dealt with."""
        ...

    async def rejected(self, project: str, source: str, errors: tuple[Finding, ...], *, once: bool) -> None:
        """An upload or a folder is not a valid skill; with `once`, what was said of it just now is not said again."""
        ...


class ToolAnnouncer(Protocol):
    """Tells what an operator has to look at."""

    async def held(self, record: ToolRecord, reason: str) -> None:
        """A tool waits to be accepted. Returns when it cannot be lost any more."""
        ...


class SwitchAnnouncer(Protocol):
    """Tells how far a switch is."""

    async def progressed(self, alias: str, switch: IndexSwitch) -> None:
        """It came further. Raises RequestError when the fact could not be published."""
        ...


async def announce(announcer: SwitchAnnouncer, alias: str, switch: IndexSwitch) -> None:
    """Say how far a switch is; that nobody hears it does not hold it up."""
    try:
        await announcer.progressed(alias, switch)
    except RequestError as error:
        log.warning("switch_not_announced", alias=alias, phase=switch.phase, reason=str(error))
