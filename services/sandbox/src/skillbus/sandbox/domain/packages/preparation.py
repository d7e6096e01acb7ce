"""Preparation of a skill's packages at install time, so that its first run does not wait for them."""

from collections.abc import Iterator

from skillbus.contracts.indexer.skill_record import Runtime, Skill
from skillbus.sandbox.domain.errors import SandboxError
from skillbus.sandbox.domain.packages.dependencies import Dependencies
from skillbus.sandbox.domain.skill import SkillSource


async def prepare_skill(
    skills: SkillSource, dependencies: Dependencies, project: str, name: str, within_s: float
) -> tuple[str, ...]:
    """Install the packages of each of a skill's scripts. Return one message per script that failed.

    Raises:
        RequestError: The skill is not available.
    """
    skill = await skills.get_skill(project, name)
    if not skill.enabled or not skill.entry_points:
        return ()
    refused = list[str]()
    async with skills.unpack_skill(skill) as folder:
        for script, runtime in _scripts(skill):
            try:
                async with dependencies.open_layer(folder, script, runtime, within_s):
                    pass
            except SandboxError as error:
                refused.append(f"{script}: {error}")
    return tuple(refused)


def _scripts(skill: Skill) -> Iterator[tuple[str, Runtime]]:
    yield from dict.fromkeys((entry.script, entry.runtime) for entry in skill.entry_points)
