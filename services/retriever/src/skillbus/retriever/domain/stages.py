"""How long each step of a search took."""

import time

from skillbus.contracts.retriever.tool_search import SearchStage


class Stages:
    """Times steps that follow one another; the first begins now."""

    def __init__(self) -> None:
        self._ends: list[tuple[str, float, int]] = []
        self._began = time.perf_counter()

    def end(self, name: str, candidates: int) -> None:
        """The step of this name ended with so many candidates, and the next begins."""
        self._ends.append((name, time.perf_counter(), candidates))

    def told(self) -> tuple[SearchStage, ...]:
        """In their order."""
        begins = (self._began, *(at for _, at, _ in self._ends))
        return tuple(
            SearchStage(name=name, took_ms=round((at - began) * 1e3, 3), candidates=candidates)
            for began, (name, at, candidates) in zip(begins, self._ends, strict=False)
        )
