"""What a demo did, step by step, and which step failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from skillbus.cli.errors import CliError


@dataclass(slots=True)
class Step:
    """One step while it is taken, and how it went."""

    name: str
    facts: dict[str, object] = field(default_factory=dict)
    took_ms: int = 0
    error: CliError | None = None

    def document(self) -> dict[str, object]:
        """For programs."""
        how: dict[str, object] = {"step": self.name, "ok": self.error is None, "took_ms": self.took_ms, **self.facts}
        return how if self.error is None else how | {"error": self.error.document()}


@dataclass(frozen=True, slots=True)
class Record:
    """The steps taken so far."""

    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step; one that fails is kept with its error, which goes on upwards."""
        step = Step(name)
        self.steps.append(step)
        started = perf_counter()
        try:
            yield step
        except CliError as error:
            step.error = error
            raise
        finally:
            step.took_ms = round((perf_counter() - started) * 1000)

    @property
    def failed(self) -> Step | None:
        """The step that ended it."""
        return next((step for step in self.steps if step.error is not None), None)

    def document(self) -> dict[str, object]:
        """For programs."""
        failed = self.failed
        return {
            "ok": failed is None,
            "failed": failed.name if failed else None,
            "steps": [step.document() for step in self.steps],
        }
