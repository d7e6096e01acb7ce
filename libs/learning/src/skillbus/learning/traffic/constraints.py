"""Constraints on the values of parameters, as errors state them: "amount must be greater than 0"."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from skillbus.learning.traffic.groups import CallGroup, EndpointKey, Endpoints, fold_name
from skillbus.learning.traffic.requirements import PARAMETER, Requirement
from skillbus.learning.traffic.settings import TrafficSettings

_STATUSES: Final = frozenset({400, 412, 422})
_NAME: Final = r"[\"'`]?(?P<name>[A-Za-z_][\w.\[\]-]{1,60}+)[\"'`]?"
_CONSTRAINT: Final = re.compile(
    rf"(?<![\w.-]){_NAME}\s{{0,3}}(?:"
    r"(?:must|should|shall|can ?not|can't|may not|has to|needs to|is required|are required|is not allowed|"
    r"is missing|is too (?:long|short|large|small|big)|is out of range|exceeds)\b"
    r"|(?:必须|必填|不能|不得|不可|应该?|需要?|须|长度|超出|超过|大于|小于|只能|不允许|不合法|格式))",
    re.IGNORECASE,
)
_REQUIRED: Final = re.compile(
    r"(?:(?:missing|required|requires)(?: required)? (?:query |body |form |request )?"
    r"(?:parameter|param|field|argument|property)s?\b"
    rf"|缺少(?:必填|必要)?(?:请求)?(?:参数|字段))\s{{0,3}}[:：]?\s{{0,3}}{_NAME}",
    re.IGNORECASE,
)
_HEADER_WORD: Final = re.compile(r"\bheaders?\b|请求头|头部", re.IGNORECASE)
_NO_PARAMETERS: Final = frozenset(
    [
        "it",
        "you",
        "user",
        "request",
        "this",
        "that",
        "value",
        "values",
        "input",
        "which",
        "and",
        "or",
        "not",
        "field",
        "parameter",
        "param",
        "body",
        "data",
        "they",
        "client",
    ]
)


def find_constraints(
    endpoints: Endpoints, required: Collection[str], settings: TrafficSettings
) -> dict[str, list[Requirement]]:
    """Return what refused calls say about parameters: by message, the endpoints that state it.

    Parameters that are known to be required are left out. A message counts if it was met often enough on endpoints
    that mostly serve their callers.
    """
    found: dict[tuple[str, str], dict[EndpointKey, list[CallGroup]]] = defaultdict(lambda: defaultdict(list))
    for endpoint, groups in endpoints.groups.items():
        headers = {fold_name(name) for group in groups for name in group.headers}
        for group in groups:
            name = find_parameter(group.message) if group.status in _STATUSES else None
            if name and name not in required and fold_name(name) not in headers:
                found[name, group.message][endpoint].append(group)
    rules: dict[str, list[Requirement]] = {}
    for (name, message), stated in sorted(found.items()):
        if _count(group for groups in stated.values() for group in groups) < settings.min_messages:
            continue
        rules[message] = [
            Requirement(PARAMETER, name, method, template, "", groups, _count(groups), succeeded)
            for (method, template), groups in stated.items()
            if (succeeded := _count(group for group in endpoints.groups[method, template] if group.succeeded))
            >= settings.min_present
        ]
    return {message: requirements for message, requirements in rules.items() if requirements}


def find_parameter(message: str) -> str | None:
    """Return the parameter that a message constrains; None if it is about something else."""
    match = _REQUIRED.search(message) or _CONSTRAINT.search(message)
    if match is None or _HEADER_WORD.search(message):
        return None
    name = match["name"].rstrip(".-")
    return None if name.lower() in _NO_PARAMETERS else name


def _count(groups: Iterable[CallGroup]) -> int:
    return sum(group.count for group in groups)
