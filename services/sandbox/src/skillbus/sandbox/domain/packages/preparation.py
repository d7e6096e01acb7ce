"""What a skill needs is had when it is installed, so that its first run does not wait for it."""

from collections.abc import Iterator

from skillbus.contracts.indexer.skill_record import Runtime, Skill
from skillbus.sandbox.domain.errors import SandboxError
from skillbus.sandbox.domain.packages.dependencies import Dependencies
from skillbus.sandbox.domain.skill import Skills


async def prepare_skill(
    skills: Skills, dependencies: Dependencies, project: str, name: str, within_s: float
) -> tuple[str, ...]:
    """Have the packages of each of a skill's scripts; why some could not be had, for each such script.

    Raises:
        RequestError: The skill cannot be had.
    """
    skill = await skills.get(project, name)
    if not skill.enabled or not skill.entry_points:
        return ()
    refused = list[str]()
    async with skills.unpacked(skill) as folder:
        for script, runtime in _scripts(skill):
            try:
                async with dependencies.layer(folder, script, runtime, within_s):
                    pass
            except SandboxError as error:
                refused.append(f"{script}: {error}")
    return tuple(refused)


def _scripts(skill: Skill) -> Iterator[tuple[str, Runtime]]:
    yield from dict.fromkeys((entry.script, entry.runtime) for entry in skill.entry_points)
