"""An operator's word on what of the network a skill may reach."""

from typing import Final

from pydantic import Field

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE, Skill
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project, SkillName
from skillbus.contracts.network import PLACES_MAX, NetworkPlace


class ApproveNetwork(Message):
    """What of the network the runs of a skill may reach, from now on: all of it is told each time."""

    project: Project = DEFAULT_PROJECT
    name: SkillName
    approved: tuple[NetworkPlace, ...] = Field(max_length=PLACES_MAX)
    """Of the places that the skill wants; none closes the network to it."""


APPROVE_NETWORK: Final = Endpoint(
    service=SERVICE,
    name="approve_network",
    request=ApproveNetwork,
    reply=Skill,
    summary="Approve what of the network the runs of a skill may reach.",
    raises=(ErrorCode.SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"name": "calculate", "approved": []},
)
