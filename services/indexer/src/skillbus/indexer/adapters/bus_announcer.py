"""Events about skills, tools, knowledge and indexes."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar
from uuid import uuid4

from skillbus.common.audit_log.recorder import ActRecorder, AuditStream
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_event
from skillbus.common.bus.headers import Origin
from skillbus.contracts.audit_log import AuditDoor
from skillbus.contracts.endpoint import Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
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
from skillbus.indexer.domain.skill.ports import InstallOutcome, SkillChangeKind

_EVENTS: Final[Mapping[SkillChangeKind, Event[SkillChanged]]] = {
    "installed": contract.SKILL_INSTALLED,
    "updated": contract.SKILL_UPDATED,
    "indexed": contract.SKILL_INDEXED,
}
FactT = TypeVar("FactT", SkillChanged, SkillRemoved, UploadTaken, UploadRejected, ToolHeld)


class IndexerAnnouncer:
    """Publishes events and waits until the stream has stored them. Records installs that no request asked for."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._recorder = ActRecorder(AuditStream(bus), SERVICE)

    async def announce_change(self, change: SkillChangeKind, record: SkillRecord) -> None:
        fact = SkillChanged(
            project=record.project, name=record.name, digest=record.skill.digest, version=record.skill.version
        )
        await self._publish(_EVENTS[change], fact, record.name, f"{change}:{_identity(record)}")

    async def announce_removal(self, record: SkillRecord) -> None:
        fact = SkillRemoved(project=record.project, name=record.name, digest=record.skill.digest)
        await self._publish(contract.SKILL_REMOVED, fact, record.name, f"removed:{_identity(record)}")

    async def announce_upload(self, source: str, outcome: InstallOutcome, record: SkillRecord) -> None:
        fact = UploadTaken(
            project=record.project, source=source, outcome=outcome, name=record.name, digest=record.skill.digest
        )
        # A repeated upload is another event.
        await self._publish(contract.UPLOAD_TAKEN, fact, source, f"taken:{uuid4().hex}")
        await self._record_install(AuditDoor.BUCKET, outcome, record)

    async def announce_rejection(
        self, project: str, source: str, errors: tuple[SkillFinding, ...], *, once: bool
    ) -> None:
        digest = hashlib.sha256("\n".join(f"{e.code}{e.message}" for e in errors).encode()).hexdigest()
        identity = f"{project}:{source}:{digest}" if once else uuid4().hex
        fact = UploadRejected(project=project, source=source, errors=errors)
        await self._publish(contract.UPLOAD_REJECTED, fact, source, f"rejected:{identity}")
        if not once:  # a folder is refused again with each scan
            act = self._recorder.make_fact(contract.INSTALL_SKILL.name, project, Origin(AuditDoor.BUCKET))
            await self._recorder.record_refusal(act, ErrorCode.SKILL_REJECTED)

    async def record_folder(self, outcome: InstallOutcome, record: SkillRecord) -> None:
        await self._record_install(AuditDoor.FOLDER, outcome, record)

    async def _record_install(self, door: AuditDoor, outcome: InstallOutcome, record: SkillRecord) -> None:
        if outcome != "unchanged":
            fact = self._recorder.make_fact(contract.INSTALL_SKILL.name, record.project, Origin(door))
            named = {"subjects": (record.name,), "count": 1, "details": {"outcome": outcome}}
            await self._recorder.record_fact(fact.model_copy(update=named))

    async def announce_held(self, record: ToolRecord, reason: str) -> None:
        fact = ToolHeld(
            project=record.project,
            id=record.id,
            source=record.tool.source,
            digest=record.awaited_digest,
            reason=reason,
        )
        tool = hashlib.sha256(record.id.encode()).hexdigest()
        moment = f"{record.awaited_digest}:{record.updated_at.isoformat()}"
        await self._publish(TOOL_QUARANTINED, fact, record.id, f"held:{record.project}:{tool}:{moment}")

    async def announce_indexed(self, items: Sequence[KnowledgeRef]) -> None:
        by_project = defaultdict[str, list[KnowledgeRef]](list)
        for item in items:
            by_project[item.project].append(item)
        for project, refs in by_project.items():
            for at in range(0, len(refs), MAX_IDS):
                await publish_event(
                    self._bus,
                    KNOWLEDGE_INDEXED,
                    KnowledgeIndexed(items=tuple(refs[at : at + MAX_IDS])),
                    identity=project,
                    message_id=f"knowledge-indexed:{uuid4().hex}",  # a repetition is another event: the first was lost
                    project=project,
                )

    async def announce_progress(self, alias: str, switch: IndexSwitch) -> None:
        await publish_event(
            self._bus,
            SWITCH_PROGRESSED,
            SwitchProgress(alias=alias, switch=switch),
            identity=alias,
            message_id=f"switch:{switch.id}:{uuid4().hex}",
            project=DEFAULT_PROJECT,
        )

    async def _publish(self, event: Event[FactT], fact: FactT, identity: str, message_id: str) -> None:
        project = fact.project
        await publish_event(self._bus, event, fact, identity=identity, message_id=message_id, project=project)


def _identity(record: SkillRecord) -> str:
    """Identify one installation. Installing a package again after its removal is another event."""
    return f"{record.project}:{record.name}:{record.skill.digest}:{record.skill.updated_at.isoformat()}"
