"""Operations on skills."""

from os import PathLike
from pathlib import Path
from typing import Final

from skillbus.client.call import SentParts
from skillbus.client.operation import ReplyParser, custom_operation, json_operation
from skillbus.client.operations.runs import read_bytes
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.http import UploadedSkill
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import (
    ApproveNetwork,
    ListSkills,
    RollBackSkill,
    SkillChecked,
    SkillHistory,
    SkillSelector,
    SkillsListed,
    SkillUninstalled,
    UpdateSkill,
)

_SKILLS: Final = "/api/skills"
_SKILL: Final = "/api/skills/{name}"
_UPLOAD_S: Final = 600.0
"""An installation fetches the packages that the skill's scripts need."""
_PROJECT: Final = ("project",)
_FORM: Final = ("package", "project")


def _prepare_upload(package: bytes | PathLike[str], *, project: str | None = None) -> PreparedRequest:
    content = package if isinstance(package, bytes) else Path(package).read_bytes()
    return PreparedRequest(
        {"project": project}, SentParts(files={"package": ("skill.zip", content, "application/zip")})
    )


def _prepare_file(name: str, path: str, *, project: str | None = None) -> PreparedRequest:
    return PreparedRequest({"name": name, "path": path, "project": project})


class SkillOperations:
    """Skills: installation, updates, history, pins and network approval."""

    install_skill = custom_operation(
        HttpRoute("POST", _SKILLS, in_form=_FORM, timeout_s=_UPLOAD_S), _prepare_upload, ReplyParser(UploadedSkill)
    )
    """Install a skill package, a zip with a SKILL.md, or update the skill with the same name. `outcome` says which."""
    check_skill = custom_operation(
        HttpRoute("POST", f"{_SKILLS}/check", in_form=_FORM, is_idempotent=True),
        _prepare_upload,
        ReplyParser(SkillChecked),
    )
    """Validate a skill package without installing it."""
    list_skills = json_operation("GET", _SKILLS, ListSkills, SkillsListed)
    """List one page of the installed skills, ordered by name. `next` is the `after` of the next page."""
    get_skill = json_operation("GET", _SKILL, SkillSelector, Skill)
    """Return one installed skill."""
    update_skill = json_operation("PATCH", _SKILL, UpdateSkill, UploadedSkill, in_query=_PROJECT)
    """Change the description of a skill. To change anything else, install a new package."""
    uninstall_skill = json_operation("DELETE", _SKILL, SkillSelector, SkillUninstalled)
    """Uninstall a skill: delete its folder, vectors, package and catalogue entry."""
    get_skill_file = custom_operation(HttpRoute("GET", f"{_SKILL}/files/{{path}}"), _prepare_file, read_bytes)
    """Return a file of a skill, such as SKILL.md, as it is in the current package."""
    get_skill_history = json_operation("GET", f"{_SKILL}/history", SkillSelector, SkillHistory)
    """List the packages of a skill, the current one first."""
    roll_back_skill = json_operation(
        "POST", f"{_SKILL}/rollback", RollBackSkill, UploadedSkill, in_query=_PROJECT, timeout_s=_UPLOAD_S
    )
    """Roll a skill back to an earlier package; without `content_digest`, to the one before the current package."""
    pin_skill = json_operation("POST", f"{_SKILL}/pin", SkillSelector, Skill, in_query=_PROJECT, is_idempotent=True)
    """Pin a skill to its current package. Other packages are refused."""
    unpin_skill = json_operation("POST", f"{_SKILL}/unpin", SkillSelector, Skill, in_query=_PROJECT, is_idempotent=True)
    """Remove the pin of a skill, so that every package is accepted again."""
    approve_network = json_operation("PUT", f"{_SKILL}/network", ApproveNetwork, Skill, in_query=_PROJECT)
    """Set the network places that the runs of a skill may reach."""
    enable_skill = json_operation(
        "POST", f"{_SKILL}/enable", SkillSelector, Skill, in_query=_PROJECT, is_idempotent=True
    )
    """Enable a disabled skill: it is found and run again."""
    disable_skill = json_operation(
        "POST", f"{_SKILL}/disable", SkillSelector, Skill, in_query=_PROJECT, is_idempotent=True
    )
    """Disable a skill: it stays installed but is neither found nor run."""
