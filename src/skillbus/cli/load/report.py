"""Report of a load: percentiles of each phase."""

from collections.abc import Sequence
from math import ceil
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from skillbus.cli.load.generator import LoadSamples


class LatencyPercentiles(BaseModel):
    """Percentiles by nearest rank, in milliseconds."""

    model_config = ConfigDict(frozen=True)

    p50: float
    p90: float
    p99: float
    p999: float
    max: float

    @classmethod
    def from_seconds(cls, latencies: Sequence[float]) -> Self | None:
        """Compute the percentiles of latencies in seconds; None if there are none."""
        if not latencies:
            return None
        ordered = sorted(latencies)
        p50, p90, p99, p999, largest = (
            round(ordered[max(0, ceil(share * len(ordered)) - 1)] * 1000, 3) for share in (0.5, 0.9, 0.99, 0.999, 1)
        )
        return cls(p50=p50, p90=p90, p99=p99, p999=p999, max=largest)


class LoadPhase(BaseModel):
    """One load, and how the server took it."""

    model_config = ConfigDict(frozen=True)

    loop: Literal["closed", "open"]
    connections: int | None
    """Number of connections of a closed loop."""
    rate: float | None
    """Requests a second of an open loop."""
    elapsed_s: float
    sent: int
    answered: int
    answered_per_s: float
    refused: int
    """Replies 429."""
    failed: dict[str, int]
    answered_ms: LatencyPercentiles | None
    """Latencies of answers; those of an open loop count from the time at which each request was due."""
    refused_ms: LatencyPercentiles | None
    generator_cpu: float
    """Cores that the generator used. Near 1 it is the generator that is measured."""

    @classmethod
    def from_samples(cls, samples: LoadSamples, *, connections: int | None = None, rate: float | None = None) -> Self:
        """Build the phase of a closed loop of so many connections, or of an open loop at a rate."""
        return cls(
            loop="open" if connections is None else "closed",
            connections=connections,
            rate=rate,
            elapsed_s=round(samples.elapsed_s, 2),
            sent=samples.sent,
            answered=len(samples.answered),
            answered_per_s=round(len(samples.answered) / samples.elapsed_s, 1),
            refused=len(samples.refused),
            failed=dict(samples.failed),
            answered_ms=LatencyPercentiles.from_seconds(samples.answered),
            refused_ms=LatencyPercentiles.from_seconds(samples.refused),
            generator_cpu=round(samples.cpu_s / samples.elapsed_s, 2),
        )


class LoadReport(BaseModel):
    """All phases of a measurement."""

    model_config = ConfigDict(frozen=True)

    kind: str
    queries: int
    texts: Literal["seen", "new"]
    """`seen` if the server had embedded the texts before."""
    phases: list[LoadPhase]
