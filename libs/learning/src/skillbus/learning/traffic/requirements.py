"""Requirements of endpoints: headers and parameters without which a call is refused.

A name is required if no call without it succeeded, most calls with it did, and either the errors name it, or every call
without it was refused with one status and chance does not explain that. Two names that are always absent together tell
nothing about each other.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.learning.traffic.groups import CallGroup, EndpointKey, Endpoints, fold_name
from skillbus.learning.traffic.paths import PathSegments
from skillbus.learning.traffic.settings import TrafficSettings

HEADER: Final = "header"
PARAMETER: Final = "parameter"
_TRANSPORT: Final = frozenset(
    [
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "accept-encoding",
        "keep-alive",
        "upgrade",
        "te",
        "trailer",
        "date",
        "via",
    ]
)
"""Headers that programs set by themselves."""
_AUTHENTICATION: Final = ("authorization", "cookie", "token", "auth", "apikey", "session")
_NAMED_WHEN_PRESENT: Final = 0.1
"""Greatest share of calls with a name whose error names it: such an error is about its value."""


@dataclass(slots=True)
class Requirement:
    """Header or parameter that an endpoint requires."""

    kind: str
    """`header` or `parameter`."""
    name: str
    method: str
    template: PathSegments
    host: str
    """Only host that requires it; empty if all do."""
    refused: Sequence[CallGroup]
    """Refused calls without the name."""
    named: int
    """Refused calls whose error names it."""
    succeeded: int
    """Calls with the name that succeeded."""

    @property
    def refusals(self) -> int:
        """Number of refused calls without the name."""
        return sum(group.count for group in self.refused)


@dataclass(slots=True)
class _NameCounts:
    """Calls of an endpoint with and without one name."""

    name: str
    present: int = 0
    succeeded: int = 0
    refused: int = 0
    """Refused calls with the name."""
    named_when_present: int = 0
    absent_successes: int = 0
    named: int = 0


def find_requirements(endpoints: Endpoints, settings: TrafficSettings) -> list[Requirement]:
    """Return the requirements of all endpoints: of an endpoint as a whole, else of one host or one value of a slug."""
    found: list[Requirement] = []
    for (method, template), groups in endpoints.groups.items():
        for kind in (HEADER, PARAMETER):
            inner = _find_in(kind, (method, template), "", groups, settings)
            for parts in (_split_by_host(template, groups), _split_by_path(template, groups)):
                known = {requirement.name for requirement in inner}
                for host, path, part in parts:
                    of_part = _find_in(kind, (method, path), host, part, settings)
                    inner += [requirement for requirement in of_part if requirement.name not in known]
            found += inner
    return found


def get_names(kind: str, group: CallGroup) -> frozenset[str]:
    """Return the names of the headers or parameters of a group's calls."""
    return group.headers if kind == HEADER else group.parameters


_Part = tuple[str, PathSegments, list[CallGroup]]
"""Host, path template and calls of a part of an endpoint."""


def _split_by_host(template: PathSegments, groups: Sequence[CallGroup]) -> list[_Part]:
    """Return the calls of each host, if there are several."""
    by_host: dict[str, list[CallGroup]] = {}
    for group in groups:
        by_host.setdefault(group.host, []).append(group)
    return [(host, template, part) for host, part in sorted(by_host.items())] if len(by_host) > 1 else []


def _split_by_path(template: PathSegments, groups: Sequence[CallGroup]) -> list[_Part]:
    """Return the calls of each value of a slug, if there are several."""
    by_path: dict[PathSegments, list[CallGroup]] = {}
    for group in groups:
        by_path.setdefault(group.path, []).append(group)
    return [("", path, part) for path, part in sorted(by_path.items())] if len(by_path) > 1 else []


def _find_in(
    kind: str, endpoint: EndpointKey, host: str, groups: Sequence[CallGroup], settings: TrafficSettings
) -> list[Requirement]:
    """Return the requirements that the calls of one endpoint show."""
    names = sorted(frozenset().union(*(get_names(kind, group) for group in groups)) - _TRANSPORT)
    folded = {fold_name(name): name for name in names}
    errors = [group for group in groups if group.refused]
    counts = [_count_name(kind, name, groups) for name in names]
    possible = [count for count in counts if _may_be_required(count, settings)]
    named, silent = [], {}
    for count in possible:
        refused = [group for group in errors if count.name not in get_names(kind, group)]
        if count.named >= settings.min_named:
            named.append(_make_requirement(kind, endpoint, host, count, refused))
        elif silently := _find_silent_refusals(kind, count, refused, folded, len(names), settings):
            silent[count.name] = (count, silently)
    chosen = _choose_independent({name: groups for name, (_, groups) in silent.items()}, kind, settings)
    return named + [_make_requirement(kind, endpoint, host, silent[name][0], silent[name][1]) for name in chosen]


def _count_name(kind: str, name: str, groups: Iterable[CallGroup]) -> _NameCounts:
    counts, folded = _NameCounts(name), fold_name(name)
    for group in groups:
        names_it = group.refused and folded in group.words
        if name in get_names(kind, group):
            counts.present += group.count
            counts.succeeded += group.count * group.succeeded
            counts.refused += group.count * group.refused
            counts.named_when_present += group.count * names_it
        else:
            counts.absent_successes += group.count * group.succeeded
            counts.named += group.count * names_it
    return counts


def _may_be_required(count: _NameCounts, settings: TrafficSettings) -> bool:
    answered = count.succeeded + count.refused
    return (
        count.absent_successes == 0
        and count.present >= settings.min_present
        and count.succeeded >= settings.min_present_success * max(answered, settings.min_present)
        and count.named_when_present <= _NAMED_WHEN_PRESENT * count.present
    )


def _find_silent_refusals(
    kind: str,
    count: _NameCounts,
    refused: Iterable[CallGroup],
    folded: dict[str, str],
    tried: int,
    settings: TrafficSettings,
) -> list[CallGroup]:
    """Return the refused calls without a name whose errors name nothing else that is absent; none if they are few, have
    several statuses, or may fail by chance."""
    unexplained = [
        group
        for group in refused
        if not any(word in folded and folded[word] not in get_names(kind, group) for word in group.words)
    ]
    total = sum(group.count for group in unexplained)
    if total < settings.min_absent:
        return []
    statuses: Counter[int] = Counter()
    for group in unexplained:
        statuses[group.status] += group.count
    usual = (count.refused + 1) / (count.refused + count.succeeded + 2)
    by_chance: float = usual**total * tried
    if max(statuses.values()) < settings.same_status * total or by_chance > settings.max_chance:
        return []
    return unexplained


def _choose_independent(candidates: dict[str, list[CallGroup]], kind: str, settings: TrafficSettings) -> list[str]:
    """Return the names whose refusals no other candidate explains. Of names that are always absent together, only one
    that is for authentication is kept."""

    def happens_with(other: str, refused: Sequence[CallGroup]) -> bool:
        with_other = sum(group.count for group in refused if other in get_names(kind, group))
        return with_other >= settings.min_absent

    chosen = []
    for name, refused in candidates.items():
        rivals = [other for other in candidates if other != name and not happens_with(other, refused)]
        equal = [other for other in rivals if not happens_with(name, candidates[other])]
        if len(equal) == len(rivals) and (not equal or _is_only_authentication(name, equal)):
            chosen.append(name)
    return chosen


def _is_only_authentication(name: str, others: Iterable[str]) -> bool:
    return _authenticates(name) and not any(_authenticates(other) for other in others)


def _authenticates(name: str) -> bool:
    return any(word in fold_name(name) for word in _AUTHENTICATION)


def _make_requirement(
    kind: str, endpoint: EndpointKey, host: str, count: _NameCounts, refused: Sequence[CallGroup]
) -> Requirement:
    return Requirement(
        kind=kind,
        name=count.name,
        method=endpoint[0],
        template=endpoint[1],
        host=host,
        refused=refused,
        named=count.named,
        succeeded=count.succeeded,
    )
