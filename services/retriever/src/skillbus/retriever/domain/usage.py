"""Telling what was found, and what it was used for."""

from typing import Protocol

from skillbus.contracts.learner.usage import AnsweredRequest


class UsageLog(Protocol):
    """Takes note of answers, and tells the learner of them by and by."""

    def note(self, project: str, answered: AnsweredRequest) -> None:
        """Remember to tell it. Returns at once and never fails: an answer does not wait for its statistics."""
        ...
