"""The indexer's handlers: decode, one call of the domain, encode."""

from dataclasses import dataclass

from skillbus.common.bus.events import Delivery
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.indexer.index_switch import IndexesListed, IndexSelector, IndexState
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import (
    ApproveNetwork,
    IndexerStatus,
    InstallSkill,
    ListSkills,
    PinSkill,
    RollBackSkill,
    SkillChanged,
    SkillChecked,
    SkillHistory,
    SkillInstalled,
    SkillSelector,
    SkillsListed,
    SkillUninstalled,
    UpdateSkill,
)
from skillbus.contracts.indexer.tools import (
    AcceptTool,
    AuditIndex,
    CatalogueTool,
    GetTool,
    IndexAudited,
    ListTools,
    PutTools,
    RemoveTools,
    SetToolState,
    ToolsListed,
    ToolsPut,
    ToolsRemoved,
)
from skillbus.contracts.learner.index import KnowledgeChanged
from skillbus.contracts.message import Empty, Message
from skillbus.indexer.domain.audit import Auditor
from skillbus.indexer.domain.catalogue.entry import ToolEntry, skill_name_of
from skillbus.indexer.domain.catalogue.listing import ToolListing, list_page, tool_of_skill
from skillbus.indexer.domain.catalogue.ports import Catalogue, ToolCatalogue
from skillbus.indexer.domain.errors import IndexUnavailableError, SkillMissingError, ToolMissingError
from skillbus.indexer.domain.index.index import Index
from skillbus.indexer.domain.index.switch_decisions import Indexes
from skillbus.indexer.domain.knowledge.follower import HeardChanges
from skillbus.indexer.domain.skill.check import check
from skillbus.indexer.domain.skill.installer import Installer
from skillbus.indexer.domain.skill.ports import IncomingPackages, SkillFolders
from skillbus.indexer.domain.skill.uploads import Uploads
from skillbus.indexer.domain.status import status_of
from skillbus.indexer.domain.tool.registry import ToolKeeper


@dataclass(frozen=True, slots=True)
class IndexerHandlers:
    """Answers the indexer's requests."""

    installer: Installer
    catalogue: Catalogue
    index: Index[ToolEntry]
    incoming: IncomingPackages
    folders: SkillFolders
    indexes: Indexes
    tools: ToolCatalogue

    async def install_skill(self, request: InstallSkill) -> SkillInstalled:
        """Install or update a skill."""
        async with self.incoming.opened(request.package) as data:
            installed = await self.installer.install(request.project, data)
        return SkillInstalled(outcome=installed.outcome, skill=installed.record.skill)

    async def update_skill(self, request: UpdateSkill) -> SkillInstalled:
        """Change a skill's description."""
        installed = await self.installer.update_description(request.project, request.name, request.description)
        return SkillInstalled(outcome=installed.outcome, skill=installed.record.skill)

    async def uninstall_skill(self, request: SkillSelector) -> SkillUninstalled:
        """Remove a skill."""
        record = await self.installer.uninstall(request.project, request.name)
        return SkillUninstalled(name=record.name, digest=record.skill.digest)

    async def get_skill(self, request: SkillSelector) -> Skill:
        """One skill."""
        return (await self.installer.get(request.project, request.name)).record.skill

    async def list_skills(self, request: ListSkills) -> SkillsListed:
        """A page of skills."""
        return list_page(await self.catalogue.all(request.project), request)

    async def check_skill(self, request: InstallSkill) -> SkillChecked:
        """Say what an install would, and install nothing."""
        async with self.incoming.opened(request.package) as data:
            return await check(self.folders, request.project, data)

    async def approve_network(self, request: ApproveNetwork) -> Skill:
        """Let the runs of a skill reach these places and no other."""
        return (await self.installer.set_network(request.project, request.name, request.approved)).skill

    async def pin_skill(self, request: PinSkill) -> Skill:
        """Hold a skill at its package, or let it go."""
        return (await self.installer.set_pinned(request.project, request.name, request.pinned)).skill

    async def roll_back_skill(self, request: RollBackSkill) -> SkillInstalled:
        """Go back to an earlier package."""
        installed = await self.installer.roll_back(request.project, request.name, request.content_digest)
        return SkillInstalled(outcome=installed.outcome, skill=installed.record.skill)

    async def get_skill_history(self, request: SkillSelector) -> SkillHistory:
        """The packages of a skill."""
        record = (await self.installer.get(request.project, request.name)).record
        return SkillHistory(name=record.name, versions=record.history)

    async def get_status(self, _: Empty) -> IndexerStatus:
        """What there is, and what waits."""
        return await status_of(self.catalogue, self.tools, self.index)

    async def list_indexes(self, _: Empty) -> IndexesListed:
        """What is searched, and how far a change of it is."""
        return IndexesListed(indexes=await self.indexes.states())

    async def start_switch(self, request: IndexSelector) -> IndexState:
        """Take an index to the default model."""
        return await self.indexes.of(request.alias).start()

    async def roll_back(self, request: IndexSelector) -> IndexState:
        """Take an index back to where it was."""
        return await self.indexes.of(request.alias).roll_back()

    async def index_reachable(self) -> HealthCheck:
        """Whether vectors can be written."""
        try:
            counts = await self.index.counts()
        except IndexUnavailableError as error:
            return HealthCheck(name="vector_store", ready=False, detail=str(error))
        return HealthCheck(name="vector_store", ready=True, detail=counts.collection or "no tool was indexed yet")


@dataclass(frozen=True, slots=True)
class ToolHandlers:
    """Answers requests about tools of any kind."""

    keeper: ToolKeeper
    listing: ToolListing
    installer: Installer
    auditor: Auditor

    async def put_tools(self, request: PutTools) -> ToolsPut:
        """Describe tools."""
        return await self.keeper.put(request)

    async def remove_tools(self, request: RemoveTools) -> ToolsRemoved:
        """Take tools out."""
        return ToolsRemoved(ids=tuple(await self.keeper.remove(request.project, request.ids, request.source)))

    async def get_tool(self, request: GetTool) -> CatalogueTool:
        """One tool, skills too."""
        return await self.listing.get(request.project, request.id)

    async def list_tools(self, request: ListTools) -> ToolsListed:
        """A page of tools, skills among them."""
        return await self.listing.page(request)

    async def accept_tool(self, request: AcceptTool) -> CatalogueTool:
        """Take what waits in quarantine."""
        return (await self.keeper.accept(request.project, request.id, request.digest)).shown()

    async def set_tool_state(self, request: SetToolState) -> CatalogueTool:
        """Disable or enable a tool, skills too."""
        if (name := skill_name_of(request.id)) is None:
            return (await self.keeper.set_enabled(request.project, request.id, request.enabled)).shown()
        try:
            return tool_of_skill(await self.installer.set_enabled(request.project, name, request.enabled))
        except SkillMissingError as error:
            raise ToolMissingError(request.project, request.id) from error

    async def audit_index(self, request: AuditIndex) -> IndexAudited:
        """Compare catalogue, vectors and packages."""
        return await self.auditor.audit(request)


class ObjectInfo(Message):
    """What the stream behind a bucket tells of an object."""

    name: str
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class IndexerListeners:
    """Hears what the indexer must follow."""

    installer: Installer
    uploads: Uploads
    indexes: Indexes
    knowledge: HeardChanges

    async def on_upload(self, delivery: Delivery) -> None:
        """Something was put into the bucket `skills`, or taken out."""
        upload = delivery.decode(ObjectInfo)
        if not upload.deleted:
            await self.uploads.take(upload.name)

    async def on_change(self, delivery: Delivery) -> None:
        """A skill was installed, updated or removed, here or by another replica."""
        change = delivery.decode(SkillChanged)
        await self.installer.following.catch_up(change.project, change.name)

    async def on_default_model(self, _: Delivery) -> None:
        """Another model is the default; which one is asked, as a later change may have been heard before this one."""
        await self.indexes.consider()

    async def on_knowledge_changed(self, delivery: Delivery) -> None:
        """Items were written; at which version they are is asked, as a later change may have been heard before."""
        changed = delivery.decode(KnowledgeChanged)
        await self.knowledge.follow([(item.project, item.id) for item in changed.items], delivery.attempt)
