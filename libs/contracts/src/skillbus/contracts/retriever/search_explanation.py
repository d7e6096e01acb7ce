"""Explanation of a search: the sides of its hits, their parts of the score, its stages, and what it left out."""

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from skillbus.contracts.message import Message

MAX_SHOWN_DROPS: Final = 20
"""Most candidates that are named for one reason."""

Side = Literal["dense", "lexical"]
"""`dense` compares vectors, `lexical` compares words."""


class MatchReason(Message):
    """Reason why a tool or item was found, from one of the two sides of a search."""

    side: Side
    """`dense` compares vectors, `lexical` compares words."""
    rank: int
    """Rank among the candidates of this side. The best has 1."""
    score: float
    """Cosine on the dense side, BM25 on the lexical side."""
    terms: tuple[str, ...] = ()
    """Terms of the query that occur in the text. Lexical side only."""
    parts: tuple[str, ...] = ()
    """Parts of the tool in which they occur: `name`, `description`, `tags`, `arguments`, `examples`, `provider`.
    Lexical side only."""


class ScoreParts(Message):
    """Parts of a hit's score as log-odds, each from -50 to 50.

    The score is 1 / (1 + e^-sum) of these parts and, for knowledge, of the `factors`.
    """

    dense: float | None
    """Part of the cosine. Absent if only words were compared."""
    lexical: float
    """Part of the words."""
    offset: float = 0.0
    """Part of the model, the same for all hits."""
    likeness: float = 0.0
    """Loss of a tool that says much the same as a better hit."""
    meaning: float = 0.0
    """Part of what a command does: more if it does what the query says, less if it does the contrary."""
    fused: float
    """Score of both sides alone, from 0 to 1."""


class SearchStage(Message):
    """Stage of a search."""

    name: str
    """`embed`, `filter`, `candidates`, `record`, `rank` or `fetch`."""
    took_ms: float
    candidates: int
    """Number of candidates after the stage."""


class DropCause(StrEnum):
    """Reason why a search did not return a candidate."""

    BELOW_THRESHOLD = "below_threshold"
    """Its score is below the threshold, or no candidate is likely to fit."""
    OVER_LIMIT = "over_limit"
    """There are enough better hits."""
    OVER_QUOTA = "over_quota"
    """There are enough better hits of its type."""
    OTHER_SCOPE = "other_scope"
    """Its scope says nothing about the requested scope."""
    REFUSED = "refused"
    """Archived, changed, moved or removed since it was indexed."""


class DroppedHit(Message):
    """Candidate that a search did not return."""

    id: str
    """Id of the tool, item or command. If it was removed, the id of its entry in the index."""
    title: str = ""
    """Name of the tool or title of the item. Empty if it is not known any more."""
    score: float | None = None
    cosine: float | None = None


class DroppedHits(Message):
    """Candidates that a search did not return, for one reason."""

    cause: DropCause
    count: int
    first: tuple[DroppedHit, ...] = Field(default=(), max_length=MAX_SHOWN_DROPS)
    """The best of them, best first."""
