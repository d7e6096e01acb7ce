"""Parameters that several routes share."""

from typing import Annotated

from fastapi import Path, Query

from skillbus.contracts.message import PlainText, Project, SkillName

SkillInPath = Annotated[SkillName, Path(description="Name of the skill.")]
ProjectInQuery = Annotated[Project, Query()]
ModelInPath = Annotated[
    PlainText, Path(min_length=1, max_length=300, description="Id of the model, its name, or `provider/name`.")
]
