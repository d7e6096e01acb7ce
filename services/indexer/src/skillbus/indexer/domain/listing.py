"""Which skills of the catalogue are asked for, page by page."""

from collections.abc import Sequence

from skillbus.contracts.indexer import ListSkills, Skill, SkillsListed
from skillbus.indexer.domain.record import SkillRecord, page_of


def list_page(records: Sequence[SkillRecord], request: ListSkills) -> SkillsListed:
    """A page of skills that are ordered by name, shorter than its limit when it would not fit a message."""
    skills = [record.skill for record in records if _is_wanted(record.skill, request)]
    rest = [skill for skill in skills if request.after is None or skill.name > request.after]
    page = page_of(rest, request.limit)
    return SkillsListed(skills=page, total=len(skills), next=page[-1].name if len(rest) > len(page) and page else None)


def _is_wanted(skill: Skill, request: ListSkills) -> bool:
    if request.enabled is not None and skill.enabled != request.enabled:
        return False
    if request.tag is not None and request.tag.casefold() not in {tag.casefold() for tag in skill.tags}:
        return False
    return request.text is None or request.text.casefold() in f"{skill.name}\n{skill.description}".casefold()
