"""How long each step of a search took."""

import time

from skillbus.contracts.retriever import Stage


class Stages:
    """Times steps that follow one another; the first begins now."""

    def __init__(self) -> None:
        self._stages: list[Stage] = []
        self._since = time.perf_counter()

    @property
    def ended(self) -> tuple[Stage, ...]:
        """In their order."""
        return tuple(self._stages)

    def end(self, name: str, candidates: int) -> None:
        """The step of this name ended, and the next begins."""
        now = time.perf_counter()
        took_ms = round((now - self._since) * 1e3, 3)
        self._stages.append(Stage(name=name, took_ms=took_ms, candidates=candidates))
        self._since = now
