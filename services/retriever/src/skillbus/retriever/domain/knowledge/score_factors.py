"""Factors that move an item of knowledge in the ranking: log-odds added to the evidence of its similarity to the query.

Each is bounded, also for extreme votes and priorities: similarity decides, and the factors order items of about the
same similarity. Earlier impressions of an item are no factor, or the top hits would stay on top.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from skillbus.common.characters import HAN_CHARACTER
from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.learner.knowledge import DEFAULT_PRIORITY, TEST_EXPERIENCE
from skillbus.contracts.retriever.knowledge_search import ScoreFactors, SearchKnowledge
from skillbus.contracts.scope import ScopeMatch, get_fixed_part

_DAY_S: Final = 86_400.0
_TAG_CHARACTERS: Final = 2
"""Shorter tags are not looked for in a query."""
_WORD: Final = re.compile(r"[\w.\-\[\]/]")
"""Characters that continue a name: `keepalive_timeout` does not name `timeout`, nor `key-auth` the tag `key`."""


@dataclass(frozen=True, slots=True)
class KnowledgeWeights:
    """Log-odds of each factor."""

    exact: float = 3.0
    within: float = 2.75
    pattern: float = 2.25
    pattern_segment: float = 0.03
    """For each segment before the first `*`; even with the most segments a scope may have it stays below `within`."""
    parent: float = 1.25
    general: float = 0.0
    tag: float = 0.75
    """For an item with a tag that the query names: it distinguishes `timeout` from `keepalive_timeout`."""
    priority: float = 0.3
    """At priority 10; the negative of it at 0, nothing at 5."""
    freshness: float = 0.3
    """Loss of the oldest `test_experience`; other types do not age."""
    half_life_days: float = 90.0
    """Half-life of the freshness since the last change."""
    feedback: float = 0.4
    """Limit of the gain of an item that everybody finds helpful, and of the loss of one that nobody does."""
    votes: float = 8.0
    """Prior votes of an item, Beta(4, 4)."""

    def compute_factors(
        self, request: SearchKnowledge, found: FoundItem, near: ScopeMatch | None, now: datetime
    ) -> ScoreFactors:
        """Return the factors of an item. `near` is None if the request names no scope."""
        item = found.item
        votes = found.helpful + found.unhelpful
        helpful = (found.helpful - found.unhelpful) / (votes + self.votes)  # twice the Beta mean less one
        return ScoreFactors(
            scope=self._weigh_scope(near, item.scope),
            tag=self.tag if names_tag(request.query, item.tags) else 0.0,
            priority=self.priority * (item.priority - DEFAULT_PRIORITY) / DEFAULT_PRIORITY,
            freshness=self._weigh_age(now - item.updated_at) if item.type == TEST_EXPERIENCE else 0.0,
            feedback=self.feedback * helpful if request.feedback else 0.0,
        )

    def _weigh_age(self, age: timedelta) -> float:
        days = max(0.0, age.total_seconds()) / _DAY_S
        return -self.freshness * (1.0 - math.exp2(-days / self.half_life_days))

    def _weigh_scope(self, near: ScopeMatch | None, scope: str) -> float:
        match near:
            case ScopeMatch.EXACT:
                return self.exact
            case ScopeMatch.WITHIN:
                return self.within
            case ScopeMatch.PATTERN:
                return self.pattern + self.pattern_segment * len(get_fixed_part(scope))
            case ScopeMatch.PARENT:
                return self.parent
            case ScopeMatch.GENERAL:
                return self.general
            case None:
                return 0.0


def names_tag(query: str, tags: Sequence[str]) -> bool:
    """Return whether one of the tags stands in the query as a whole word, in any case.

    Chinese has no spaces between words, so a Chinese character ends a word. Neither does a full stop at the end of a
    sentence continue a name, in contrast to the dot in `a.b`.
    """
    text = query.lower()
    for tag in tags:
        name = tag.lower()
        at = text.find(name) if len(tag) >= _TAG_CHARACTERS else -1
        while at >= 0:
            end = at + len(name)
            following = text[end + 1 : end + 2] if text[end : end + 1] == "." else text[end : end + 1]
            if _ends_word(text[at - 1 : at] if at else "") and _ends_word(following):
                return True
            at = text.find(name, at + 1)
    return False


def _ends_word(character: str) -> bool:
    return not character or not _WORD.match(character) or bool(HAN_CHARACTER.match(character))


NEUTRAL: Final = KnowledgeWeights()
