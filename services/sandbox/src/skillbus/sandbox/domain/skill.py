"""Which entry point of a skill a run means, and where the skill's files are."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

from skillbus.contracts.indexer.skill_record import EntryPoint, Skill
from skillbus.sandbox.domain.errors import ActionUnknown, NothingToRun, SkillDisabled

_SHOWN_CHARACTERS: Final = 128


class Skills(Protocol):
    """Installed skills."""

    async def get(self, project: str, name: str) -> Skill:
        """A skill. Raises RequestError, `skill_not_found` among others."""
        ...

    def unpacked(self, skill: Skill) -> AbstractAsyncContextManager[Path]:
        """The skill's folder, which stays while the context is open. Raises RequestError when it cannot be had."""
        ...


def entry_point_of(skill: Skill, action: str | None) -> EntryPoint:
    """The entry point of an action, or of a script by its path; None means the default.

    Raises:
        SkillDisabled: The skill is not to be run.
        NothingToRun: The skill has none.
        ActionUnknown: It has no such one, or several and no default.
    """
    if not skill.enabled:
        raise SkillDisabled(f"{skill.name} is disabled: have an operator enable it (set_tool_state)")
    points: Sequence[EntryPoint] = skill.entry_points
    if not points:
        raise NothingToRun(f"{skill.name} has nothing to run: it is instructions to be read")
    known = tuple(point.action for point in points)
    wanted = skill.default_action if action is None else action
    if wanted is None:
        raise ActionUnknown(f"{skill.name} has several actions, name one: {', '.join(known)}", known)
    by_action = {point.action: point for point in points}
    by_script = {point.script: point for point in points}
    found = by_action.get(wanted) or by_script.get(wanted.removeprefix("./"))
    if found is None:
        raise ActionUnknown(
            f"{skill.name} has no action {wanted[:_SHOWN_CHARACTERS]!r}; there are: {', '.join(known)}", known
        )
    return found
