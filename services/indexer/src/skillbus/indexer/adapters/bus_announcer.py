"""Facts about skills, tools, knowledge and indexes, on the bus."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.contracts.endpoint import Event
from skillbus.contracts.indexer import skills as contract
from skillbus.contracts.indexer.index_switch import SWITCH_PROGRESSED, IndexSwitch, SwitchProgress
from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.contracts.indexer.skills import SkillChanged, SkillRemoved, UploadRejected, UploadTaken
from skillbus.contracts.indexer.tools import TOOL_QUARANTINED, ToolHeld
from skillbus.contracts.learner.index import KNOWLEDGE_INDEXED, KnowledgeIndexed
from skillbus.contracts.learner.knowledge import MAX_IDS, KnowledgeRef
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.indexer.domain.catalogue.skill import SkillRecord
from skillbus.indexer.domain.catalogue.tool import ToolRecord
from skillbus.indexer.domain.skill.ports import Change, Outcome

_EVENTS: Final[Mapping[Change, Event[SkillChanged]]] = {
    "installed": contract.SKILL_INSTALLED,
    "updated": contract.SKILL_UPDATED,
    "indexed": contract.SKILL_INDEXED,
}


class BusAnnouncer:
    """Publishes facts and waits until the stream has them."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def changed(self, change: Change, record: SkillRecord) -> None:
        fact = SkillChanged(
            project=record.project, name=record.name, digest=record.skill.digest, version=record.skill.version
        )
        await publish_event(
            self._bus,
            _EVENTS[change],
            fact,
            identity=record.name,
            message_id=f"{change}:{_identity(record)}",
            project=record.project,
        )

    async def removed(self, record: SkillRecord) -> None:
        fact = SkillRemoved(project=record.project, name=record.name, digest=record.skill.digest)
        await publish_event(
            self._bus,
            contract.SKILL_REMOVED,
            fact,
            identity=record.name,
            message_id=f"removed:{_identity(record)}",
            project=record.project,
        )

    async def taken(self, source: str, outcome: Outcome, record: SkillRecord) -> None:
        fact = UploadTaken(
            project=record.project, source=source, outcome=outcome, name=record.name, digest=record.skill.digest
        )
        await publish_event(
            self._bus,
            contract.UPLOAD_TAKEN,
            fact,
            identity=source,
            message_id=f"taken:{uuid4().hex}",  # the same upload again is another fact
            project=record.project,
        )

    async def rejected(self, project: str, source: str, errors: tuple[SkillFinding, ...], *, once: bool) -> None:
        said = hashlib.sha256("\n".join(f"{e.code}{e.message}" for e in errors).encode()).hexdigest()
        identity = f"{project}:{source}:{said}" if once else uuid4().hex
        await publish_event(
            self._bus,
            contract.UPLOAD_REJECTED,
            UploadRejected(project=project, source=source, errors=errors),
            identity=source,
            message_id=f"rejected:{identity}",
            project=project,
        )

    async def held(self, record: ToolRecord, reason: str) -> None:
        fact = ToolHeld(
            project=record.project,
            id=record.id,
            source=record.tool.source,
            digest=record.awaited_digest,
            reason=reason,
        )
        await publish_event(
            self._bus,
            TOOL_QUARANTINED,
            fact,
            identity=record.id,
            message_id=f"held:{record.project}:{hashlib.sha256(record.id.encode()).hexdigest()}:"
            f"{record.awaited_digest}:{record.updated_at.isoformat()}",
            project=record.project,
        )

    async def indexed(self, items: Sequence[KnowledgeRef]) -> None:
        by_project = defaultdict[str, list[KnowledgeRef]](list)
        for item in items:
            by_project[item.project].append(item)
        for project, of_project in by_project.items():
            for at in range(0, len(of_project), MAX_IDS):
                await publish_event(
                    self._bus,
                    KNOWLEDGE_INDEXED,
                    KnowledgeIndexed(items=tuple(of_project[at : at + MAX_IDS])),
                    identity=project,
                    message_id=f"knowledge-indexed:{uuid4().hex}",  # said again, it is another fact: it was not heard
                    project=project,
                )

    async def progressed(self, alias: str, switch: IndexSwitch) -> None:
        await publish_event(
            self._bus,
            SWITCH_PROGRESSED,
            SwitchProgress(alias=alias, switch=switch),
            identity=alias,
            message_id=f"switch:{switch.id}:{uuid4().hex}",
            project=DEFAULT_PROJECT,
        )


def _identity(record: SkillRecord) -> str:
    """Of one installation: installing the same package again after it was removed is another fact."""
    return f"{record.project}:{record.name}:{record.skill.digest}:{record.skill.updated_at.isoformat()}"
