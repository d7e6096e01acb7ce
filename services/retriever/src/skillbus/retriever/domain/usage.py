"""Telling what was found, and what it was used for."""

from typing import Protocol

from skillbus.contracts.knowledge_usage import KnowledgeUsed


class UsageLog(Protocol):
    """Takes note of answers, and tells the learner of them by and by."""

    def note(self, used: KnowledgeUsed) -> None:
        """Remember to tell it. Returns at once and never fails: an answer does not wait for its statistics."""
        ...
