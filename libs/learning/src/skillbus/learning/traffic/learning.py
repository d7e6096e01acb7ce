"""Learning from traffic: the rules that an HTTP interface shows by the calls that it refuses."""

from collections.abc import Iterable
from dataclasses import dataclass

from skillbus.contracts.learner.learned import LearnedItem
from skillbus.learning.traffic.calls import HttpCall
from skillbus.learning.traffic.constraints import find_constraints
from skillbus.learning.traffic.groups import collect_endpoints
from skillbus.learning.traffic.items import write_rule
from skillbus.learning.traffic.paths import format_template
from skillbus.learning.traffic.requirements import PARAMETER, find_requirements
from skillbus.learning.traffic.rules import join_constraints, join_requirements
from skillbus.learning.traffic.settings import TrafficSettings


@dataclass(frozen=True, slots=True)
class TrafficFindings:
    """Rules and path templates of a file of calls."""

    calls: int
    templates: tuple[str, ...]
    """Path templates, sorted."""
    dropped: int
    """Calls that were counted only, because there were too many different ones."""
    items: tuple[LearnedItem, ...]


def learn_from_calls(file: str, calls: Iterable[HttpCall], settings: TrafficSettings) -> TrafficFindings:
    """Return the rules that the calls of a file show. Memory is bounded by the number of different calls.

    Raises UnreadableTrafficError if reading the calls does.
    """
    endpoints = collect_endpoints(file, calls, settings)
    required = find_requirements(endpoints, settings)
    rules = join_requirements(required, endpoints, settings)
    parameters = {requirement.name for requirement in required if requirement.kind == PARAMETER}
    for message, constrained in find_constraints(endpoints, parameters, settings).items():
        rules += join_constraints(message, constrained, endpoints, settings)
    templates = tuple(sorted({format_template(template) for _, template in endpoints.groups}))
    items = sorted((write_rule(rule) for rule in rules), key=lambda item: (item.statement.subject, item.title))
    return TrafficFindings(endpoints.calls, templates, endpoints.dropped, tuple(items))
