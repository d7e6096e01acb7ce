"""What moves an item of knowledge beside its likeness to the query: log-odds that are added to its evidence.

Each has its bounds, whatever people or imports say: the likeness decides, and these decide between what is about as
like. That an item was shown before moves nothing, or what is on top would stay there.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skillbus.contracts.learner.index import FoundItem
from skillbus.contracts.learner.knowledge import DEFAULT_PRIORITY, KnowledgeItem, KnowledgeType
from skillbus.contracts.retriever.knowledge_search import ScoreFactors, SearchKnowledge
from skillbus.contracts.scope import ScopeMatch, get_fixed_part
from skillbus.retriever.domain.knowledge.named_tags import names_one

_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class KnowledgeWeights:
    """Log-odds. Of scopes the nearest counts most, of patterns the one that says most."""

    exact: float = 3.0
    within: float = 2.75
    pattern: float = 2.25
    pattern_segment: float = 0.03
    """For each segment before the first `*`; with all that a scope may have it stays below `within`."""
    parent: float = 1.25
    general: float = 0.0
    tag: float = 0.75
    """Where the query names one of its tags: it tells `timeout` from `keepalive_timeout`."""
    priority: float = 0.3
    """At priority 10; the same less at 0, nothing at 5."""
    freshness: float = 0.3
    """What the oldest of `test_experience` loses; other kinds do not age."""
    half_life_days: float = 90.0
    """Since it was changed last, of the freshness."""
    feedback: float = 0.4
    """What an item nears that everybody finds helpful, and loses where nobody does."""
    votes: float = 8.0
    """How many say as much as is believed of an item that nobody spoke of: Beta(4, 4)."""

    def reach(self, request: SearchKnowledge) -> float:
        """How much nearer one item may be than another, and the other come before it all the same."""
        feedback = 2 * self.feedback if request.feedback else 0.0
        scope = 0.0 if request.scope is None else self.exact - self.general
        return scope + self.tag + 2 * self.priority + self.freshness + feedback

    def factors(
        self, found: FoundItem, match: ScopeMatch | None, now: datetime, *, query: str = "", feedback: bool
    ) -> ScoreFactors:
        """What moves an item. `match` is None where no scope was asked for."""
        return ScoreFactors.model_construct(
            scope=self._scope(match, found.item.scope),
            tag=self.tag if names_one(query, found.item.tags) else 0.0,
            priority=self.priority * (found.item.priority - DEFAULT_PRIORITY) / DEFAULT_PRIORITY,
            freshness=self._freshness(found.item, now),
            feedback=self._feedback(found) if feedback else 0.0,
        )

    def _scope(self, match: ScopeMatch | None, scope: str) -> float:
        match match:
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

    def _freshness(self, item: KnowledgeItem, now: datetime) -> float:
        if item.type is not KnowledgeType.TEST_EXPERIENCE:
            return 0.0
        days = max(0.0, (now - item.updated_at).total_seconds()) / _DAY_S
        return -self.freshness * (1.0 - math.exp2(-days / self.half_life_days))

    def _feedback(self, found: FoundItem) -> float:
        """Twice the mean of the Beta distribution less one: from -1 to 1, and 0 where nobody spoke."""
        voices = found.helpful + found.unhelpful
        return self.feedback * (found.helpful - found.unhelpful) / (voices + self.votes)


NEUTRAL: Final = KnowledgeWeights()
