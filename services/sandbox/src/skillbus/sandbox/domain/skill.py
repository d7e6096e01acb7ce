"""Entry point of a skill, and the port to installed skills."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

from skillbus.contracts.indexer.skill_record import EntryPoint, Skill
from skillbus.sandbox.domain.errors import ActionUnknown, NothingToRun, SkillDisabled

_SHOWN_CHARACTERS: Final = 128


class SkillSource(Protocol):
    """Source of installed skills and their files."""

    async def get_skill(self, project: str, name: str) -> Skill:
        """Return a skill. Raises RequestError, for example `skill_not_found`."""

    def unpack_skill(self, skill: Skill) -> AbstractAsyncContextManager[Path]:
        """Yield the skill's folder, which exists while the context is open. Raises RequestError."""


def find_entry_point(skill: Skill, action: str | None) -> EntryPoint:
    """Return the entry point of an action, or of a script by its path; None means the default.

    Raises:
        SkillDisabled: The skill is disabled.
        NothingToRun: The skill has no entry point.
        ActionUnknown: The skill has no such action, or several and no default.
    """
    if not skill.enabled:
        raise SkillDisabled(f"{skill.name} is disabled: an operator can enable it with set_tool_state")
    points: Sequence[EntryPoint] = skill.entry_points
    if not points:
        raise NothingToRun(f"{skill.name} has nothing to run: it consists of instructions only")
    known = tuple(point.action for point in points)
    wanted = skill.default_action if action is None else action
    if wanted is None:
        raise ActionUnknown(f"{skill.name} has several actions: name one of {', '.join(known)}", known)
    by_action = {point.action: point for point in points}
    by_script = {point.script: point for point in points}
    found = by_action.get(wanted) or by_script.get(wanted.removeprefix("./"))
    if found is None:
        raise ActionUnknown(
            f"{skill.name} has no action {wanted[:_SHOWN_CHARACTERS]!r}; it has {', '.join(known)}", known
        )
    return found
