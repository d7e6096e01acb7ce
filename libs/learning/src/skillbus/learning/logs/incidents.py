"""Incidents of a log: severe templates, joined if they occur together."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Final

from skillbus.learning.logs.failures import classify_failure
from skillbus.learning.logs.records.severity import Severity
from skillbus.learning.logs.settings import LogSettings
from skillbus.learning.logs.statistics import TemplateStatistics

_WORD: Final = re.compile(r"\w|<\*>")
"""Part of any template that is more than punctuation."""
_MOST_CANDIDATES: Final = 200
_LEAST_SHARED: Final = 2
_COMPONENT_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class LogIncident:
    """Severe templates that occur together, with their statistics; the one with the highest score is first."""

    templates: Mapping[str, TemplateStatistics]

    @property
    def subject(self) -> str:
        """The template that stands for the incident, whatever the counts: the first by severity and text."""
        return min(self.templates, key=lambda it: (-self.templates[it].severity, it))

    @property
    def severity(self) -> Severity:
        """The highest severity."""
        return max(it.severity for it in self.templates.values())

    @property
    def records(self) -> int:
        """Records of all its templates."""
        return sum(it.count for it in self.templates.values())

    @property
    def component(self) -> str:
        """The component of most of its records; empty if they come from several."""
        components = Counter[str]()
        for statistics in self.templates.values():
            for component, count in statistics.components.items():
                components[component] += count
        return _choose_component(components)


def find_incidents(
    statistics: Mapping[str, TemplateStatistics], windows: int, settings: LogSettings
) -> list[LogIncident]:
    """Return the incidents with the highest scores. A score is severity x log(1 + count).

    A template joins the incident of a template with a higher score, and not that of one that joined: so all members
    of an incident occur together with its first.
    """
    severe = {text: it for text, it in statistics.items() if it.severity >= Severity.WARNING and _WORD.search(text)}
    most = max((it.count for it in severe.values()), default=0)
    scores = {
        text: _score_records(it.severity, it.count)
        for text, it in severe.items()
        if it.count >= _get_least_records(it, settings, most)
    }
    groups: list[list[str]] = []
    for text in sorted(scores, key=lambda it: (-scores[it], it))[:_MOST_CANDIDATES]:
        heads = (
            group
            for group in groups
            if _occur_together(severe[group[0]], severe[text], windows, settings)
            or _is_same_failure(group[0], text, severe)
        )
        group = next(heads, None)
        if group is None:
            groups.append([text])
        else:
            group.append(text)
    incidents = [LogIncident({text: severe[text] for text in group}) for group in groups]
    incidents.sort(key=lambda it: -_score_records(it.severity, it.records))
    return incidents[: settings.max_incidents]


def _score_records(severity: Severity, count: int) -> float:
    return severity * log(1 + count)


def _get_least_records(statistics: TemplateStatistics, settings: LogSettings, most: int) -> float:
    """Return how many records make the template a candidate; `most` are those of the commonest severe template."""
    least = 1 if statistics.levelled else settings.min_unlevelled
    if statistics.severity >= Severity.ERROR:
        return least
    return max(least, settings.min_warnings, settings.min_share * most)


def _choose_component(components: Counter[str]) -> str:
    """Return the component of most records; empty if they come from several."""
    name, count = components.most_common(1)[0] if components else ("", 0)
    return name if count >= _COMPONENT_SHARE * components.total() else ""


def _is_same_failure(one: str, other: str, statistics: Mapping[str, TemplateStatistics]) -> bool:
    """Return whether two templates of one component are steps of the same failure, such as failed logins."""
    failure = classify_failure(one)
    components = {_choose_component(statistics[text].components) for text in (one, other)}
    return failure.joined and classify_failure(other) == failure and len(components) == 1


def _occur_together(one: TemplateStatistics, other: TemplateStatistics, windows: int, settings: LogSettings) -> bool:
    """Return whether two templates share enough time windows or traces."""
    shared = len(one.windows & other.windows)
    lift = shared * windows / (len(one.windows) * len(other.windows) or 1)
    if (
        shared >= _LEAST_SHARED
        and lift > settings.min_lift
        and shared >= settings.min_together * max(len(one.windows), len(other.windows))
    ):
        return True
    traced = len(one.traces & other.traces)
    return traced >= _LEAST_SHARED and traced >= settings.min_together * max(len(one.traces), len(other.traces))
