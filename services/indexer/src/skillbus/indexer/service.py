"""Handlers of the indexer: each decodes a message, calls the domain once and encodes the reply."""

from dataclasses import dataclass

from skillbus.common.bus.events import Delivery
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.indexer.index_switch import IndexesListed, IndexSelector, IndexState
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import (
    ApproveNetwork,
    IndexerStatus,
    InstallSkill,
    PinSkill,
    RollBackSkill,
    SkillChanged,
    SkillChecked,
    SkillHistory,
    SkillInstalled,
    SkillSelector,
    SkillUninstalled,
    UpdateSkill,
)
from skillbus.contracts.indexer.tool_approval import SetToolApproval
from skillbus.contracts.indexer.tools import (
    AcceptTool,
    CatalogueTool,
    GetTool,
    RemoveTools,
    SetToolState,
    ToolsRemoved,
)
from skillbus.contracts.learner.index import KnowledgeChanged
from skillbus.contracts.message import Empty, Message
from skillbus.indexer.domain.audit import CatalogueAuditor, read_status
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.functions import ToolDescriber
from skillbus.indexer.domain.catalogue.listing import CatalogueListing, skill_to_catalogue_tool
from skillbus.indexer.domain.catalogue.skill import parse_skill_id
from skillbus.indexer.domain.errors import IndexUnavailableError, SkillMissingError, ToolMissingError
from skillbus.indexer.domain.home.homes import Homes
from skillbus.indexer.domain.home.library import CommandLibrary
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.switch_decisions import Indexes
from skillbus.indexer.domain.knowledge import KnowledgeFollower
from skillbus.indexer.domain.skill.follower import SkillFollower
from skillbus.indexer.domain.skill.installer import Installer, check_package
from skillbus.indexer.domain.skill.ports import IncomingPackages, SkillFolders
from skillbus.indexer.domain.skill.uploads import Uploads
from skillbus.indexer.domain.tool.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class IndexerHandlers:
    """Answers requests about skills and indexes."""

    installer: Installer
    listing: CatalogueListing
    index: Index[ToolEntry]
    incoming: IncomingPackages
    folders: SkillFolders
    indexes: Indexes
    homes: Homes
    library: CommandLibrary

    async def install_skill(self, request: InstallSkill) -> SkillInstalled:
        async with self.incoming.open_content(request.package) as data:
            installed = await self.installer.install(request.project, data)
        return SkillInstalled(outcome=installed.outcome, skill=installed.record.skill)

    async def update_skill(self, request: UpdateSkill) -> SkillInstalled:
        installed = await self.installer.update_description(request.project, request.name, request.description)
        return SkillInstalled(outcome=installed.outcome, skill=installed.record.skill)

    async def uninstall_skill(self, request: SkillSelector) -> SkillUninstalled:
        record = await self.installer.uninstall(request.project, request.name)
        return SkillUninstalled(name=record.name, digest=record.skill.digest)

    async def get_skill(self, request: SkillSelector) -> Skill:
        return (await self.installer.load_skill(request.project, request.name)).record.skill

    async def check_skill(self, request: InstallSkill) -> SkillChecked:
        async with self.incoming.open_content(request.package) as data:
            return await check_package(self.folders, request.project, data)

    async def approve_network(self, request: ApproveNetwork) -> Skill:
        return (await self.installer.set_network(request.project, request.name, request.approved)).skill

    async def pin_skill(self, request: PinSkill) -> Skill:
        return (await self.installer.set_pinned(request.project, request.name, request.pinned)).skill

    async def roll_back_skill(self, request: RollBackSkill) -> SkillInstalled:
        installed = await self.installer.roll_back(request.project, request.name, request.content_digest)
        return SkillInstalled(outcome=installed.outcome, skill=installed.record.skill)

    async def get_skill_history(self, request: SkillSelector) -> SkillHistory:
        record = (await self.installer.load_skill(request.project, request.name)).record
        return SkillHistory(name=record.name, versions=record.history)

    async def get_status(self, _: Empty) -> IndexerStatus:
        return await read_status(self.listing.listed, self.homes.listed, self.library.listed, self.index)

    async def list_indexes(self, _: Empty) -> IndexesListed:
        states = [await decisions.describe_state() for decisions in self.indexes.decisions]
        return IndexesListed(indexes=tuple(states))

    async def start_switch(self, request: IndexSelector) -> IndexState:
        return await self.indexes.find_index(request.alias).start_switch()

    async def roll_back(self, request: IndexSelector) -> IndexState:
        return await self.indexes.find_index(request.alias).roll_back()

    async def check_vector_store(self) -> HealthCheck:
        try:
            counts = await self.index.count_points()
        except IndexUnavailableError as error:
            return HealthCheck(name="vector_store", ready=False, detail=str(error))
        return HealthCheck(name="vector_store", ready=True, detail=counts.collection or "no tool was indexed yet")


@dataclass(frozen=True, slots=True)
class ToolHandlers:
    """Answers requests about tools of all types."""

    registry: ToolRegistry
    listing: CatalogueListing
    describer: ToolDescriber
    installer: Installer
    auditor: CatalogueAuditor

    async def remove_tools(self, request: RemoveTools) -> ToolsRemoved:
        ids = await self.registry.remove_tools(request.project, request.ids, request.source)
        return ToolsRemoved(ids=tuple(ids))

    async def get_tool(self, request: GetTool) -> CatalogueTool:
        return await self.listing.load_catalogue_tool(request.project, request.id)

    async def accept_tool(self, request: AcceptTool) -> CatalogueTool:
        record = await self.registry.accept_tool(request.project, request.id, request.digest)
        return record.to_catalogue_tool()

    async def set_tool_state(self, request: SetToolState) -> CatalogueTool:
        if (name := parse_skill_id(request.id)) is None:
            record = await self.registry.set_enabled(request.project, request.id, request.enabled)
            return record.to_catalogue_tool()
        try:
            return skill_to_catalogue_tool(await self.installer.set_enabled(request.project, name, request.enabled))
        except SkillMissingError as error:
            raise ToolMissingError(request.project, request.id) from error

    async def set_tool_approval(self, request: SetToolApproval) -> CatalogueTool:
        if (name := parse_skill_id(request.id)) is None:
            record = await self.registry.set_approval(request.project, request.id, request.required)
            return record.to_catalogue_tool()
        try:
            return skill_to_catalogue_tool(await self.installer.set_approval(request.project, name, request.required))
        except SkillMissingError as error:
            raise ToolMissingError(request.project, request.id) from error


class ObjectInfo(Message):
    """Event of the stream behind a bucket about an object."""

    name: str
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class IndexerListeners:
    """Follows events."""

    follower: SkillFollower
    uploads: Uploads
    indexes: Indexes
    knowledge: KnowledgeFollower

    async def on_upload(self, delivery: Delivery) -> None:
        """Install an object that was put into the bucket `skills`."""
        upload = delivery.decode(ObjectInfo)
        if not upload.deleted:
            await self.uploads.install_upload(upload.name)

    async def on_change(self, delivery: Delivery) -> None:
        """Follow a skill that was installed, updated or removed, here or by another replica."""
        change = delivery.decode(SkillChanged)
        await self.follower.follow_skill(change.project, change.name)

    async def on_default_model(self, _: Delivery) -> None:
        """Ask for the default model: events may arrive in another order than the changes."""
        await self.indexes.follow_default_model()

    async def on_knowledge_changed(self, delivery: Delivery) -> None:
        """Read the changed items: events may arrive in another order than the changes."""
        changed = delivery.decode(KnowledgeChanged)
        await self.knowledge.follow_event([(item.project, item.id) for item in changed.items], delivery.attempt)
