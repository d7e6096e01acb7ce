"""Rules: requirements of several endpoints that are one, such as a header that everything below a path needs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skillbus.learning.traffic.groups import CallGroup, EndpointKey, Endpoints
from skillbus.learning.traffic.paths import ID, SLUG, PathSegments
from skillbus.learning.traffic.requirements import Requirement, get_names
from skillbus.learning.traffic.settings import TrafficSettings


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """Requirements that are one rule."""

    template: PathSegments
    below: bool
    """True if the rule holds for everything below the template."""
    requirements: tuple[Requirement, ...]
    message: str = ""
    """Message that states the constraint on a parameter's value; empty for a required name."""

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods in alphabetical order."""
        return tuple(sorted({requirement.method for requirement in self.requirements}))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that have the rule; none if all do."""
        return tuple(sorted({requirement.host for requirement in self.requirements} - {""}))


def join_requirements(
    requirements: Iterable[Requirement], endpoints: Endpoints, settings: TrafficSettings
) -> list[RuleFinding]:
    """Return the rules: one for each name and the highest path below which all endpoints require it."""
    by_name: dict[tuple[str, str], list[Requirement]] = defaultdict(list)
    for requirement in requirements:
        by_name[requirement.kind, requirement.name].append(requirement)
    rules: list[RuleFinding] = []
    for _, same in sorted(by_name.items()):
        by_host: dict[str, list[Requirement]] = defaultdict(list)
        for requirement in same:
            by_host[requirement.host].append(requirement)
        for host, of_host in sorted(by_host.items()):
            rules += _roll_up(of_host, _select_host(endpoints, host), settings)
    return _join_hosts(rules)


def join_constraints(
    message: str, requirements: Sequence[Requirement], endpoints: Endpoints, settings: TrafficSettings
) -> list[RuleFinding]:
    """Return the rules that one message states: one if all endpoints with these methods below a path have it."""
    methods = {requirement.method for requirement in requirements}
    have = {(requirement.method, requirement.template) for requirement in requirements}
    templates = {template for _, template in have}
    busy = {
        (method, template)
        for (method, template), groups in endpoints.groups.items()
        if method in methods and sum(group.count for group in groups if group.succeeded) >= settings.min_present
    }
    prefix = _find_common_prefix(templates)
    if len(templates) > 1 and prefix and {key for key in busy if _is_below(prefix, key[1])} <= have:
        return [RuleFinding(prefix, True, tuple(requirements), message)]
    by_template: dict[PathSegments, list[Requirement]] = defaultdict(list)
    for requirement in requirements:
        by_template[requirement.template].append(requirement)
    return [RuleFinding(template, False, tuple(part), message) for template, part in sorted(by_template.items())]


def _select_host(endpoints: Endpoints, host: str) -> list[tuple[EndpointKey, list[CallGroup]]]:
    if not host:
        return list(endpoints.groups.items())
    return [(key, [group for group in groups if group.host == host]) for key, groups in endpoints.groups.items()]


def _roll_up(
    requirements: list[Requirement], endpoints: Sequence[tuple[EndpointKey, list[CallGroup]]], settings: TrafficSettings
) -> list[RuleFinding]:
    left = list(requirements)
    rules: list[RuleFinding] = []
    while left:
        below = next((prefix for prefix in _list_prefixes(left) if _is_shared(prefix, left, endpoints, settings)), None)
        template = left[0].template if below is None else below
        joined = [
            requirement
            for requirement in left
            if (requirement.template == template if below is None else _is_below(below, requirement.template))
        ]
        rules.append(RuleFinding(template, below is not None, tuple(joined)))
        left = [requirement for requirement in left if requirement not in joined]
    return rules


def _list_prefixes(requirements: Iterable[Requirement]) -> list[PathSegments]:
    """Return the paths with two or more required templates at or below them, shortest first."""
    below: dict[PathSegments, set[PathSegments]] = defaultdict(set)
    for requirement in requirements:
        for length in range(1, len(requirement.template) + 1):
            below[requirement.template[:length]].add(requirement.template)
    return sorted(
        (prefix for prefix, found in below.items() if len(found) > 1), key=lambda prefix: (len(prefix), prefix)
    )


def _is_shared(
    prefix: PathSegments,
    requirements: Sequence[Requirement],
    endpoints: Sequence[tuple[EndpointKey, list[CallGroup]]],
    settings: TrafficSettings,
) -> bool:
    """Return True if no call below a path succeeded without the name, and no busy endpoint leaves the question open."""
    kind, name = requirements[0].kind, requirements[0].name
    have = {(requirement.method, requirement.template) for requirement in requirements}
    for key, groups in endpoints:
        below = [group for group in groups if _is_below(prefix, group.path)]
        absent = [group for group in below if name not in get_names(kind, group)]
        if any(group.succeeded for group in absent):
            return False
        tried = any(group.refused for group in absent)
        busy = sum(group.count for group in below) >= settings.min_present
        if busy and not tried and key not in have:
            return False
    return True


def _is_below(prefix: PathSegments, path: PathSegments) -> bool:
    return len(path) >= len(prefix) and all(
        part in {ID, SLUG} or part == segment for part, segment in zip(prefix, path, strict=False)
    )


def _find_common_prefix(templates: Iterable[PathSegments]) -> PathSegments:
    common: list[str] = []
    for segments in zip(*templates, strict=False):
        if len(set(segments)) > 1:
            break
        common.append(segments[0])
    return tuple(common)


def _join_hosts(rules: Iterable[RuleFinding]) -> list[RuleFinding]:
    """Join what several hosts require alike."""
    joined: dict[tuple[object, ...], RuleFinding] = {}
    for rule in rules:
        first = rule.requirements[0]
        key = (first.kind, first.name, rule.template, rule.below, bool(first.host))
        held = joined.get(key)
        requirements = (*(held.requirements if held else ()), *rule.requirements)
        joined[key] = RuleFinding(rule.template, rule.below, requirements)
    return list(joined.values())
