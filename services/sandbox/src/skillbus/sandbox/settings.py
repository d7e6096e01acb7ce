"""Settings of the sandbox."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.sandbox.domain.network import EgressPolicy, parse_networks
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.skill_limits import Bounds, fitting


class SandboxSettings(BaseSettings):
    """Read from `SKILLBUS_SANDBOX_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_SANDBOX_", frozen=True)

    data: Path = Path("data/sandbox")
    """Where skills are unpacked for their runs; a cache that may be deleted while nothing runs."""
    slots: int = Field(default=2, ge=1)
    """Runs at the same time."""
    warm: int = Field(default=2, ge=0, le=64)
    """Sandboxes that are started ahead and wait for runs, some 6 MB each."""
    forks: int = Field(default=32, ge=1, le=10_000)
    """Runs at most whose processes are forks of the same interpreter, and have its address layout; with 1 each has one
    of its own, whose start then takes a part of the processor's time.
    """
    waiting: int = Field(default=16, ge=0)
    """Runs that may wait for a slot; more are refused with 429."""
    wall_s: float = Field(default=60.0, gt=0, le=3600)
    """The longest that a run may take, unless its skill asks for something else; a request can ask for less."""
    cpu_s: int = Field(default=60, ge=1, le=3600)
    """Of each process."""
    memory_mib: int = Field(default=512, ge=64)
    processes: int = Field(default=64, ge=1, le=4096)
    output_mib: int = Field(default=10, ge=1, le=64)
    artifacts: int = Field(default=64, ge=0, le=256)
    """The reply names each: 256 fit a message, whatever their names."""
    artifacts_mib: int = Field(default=32, ge=1, le=1024)
    work_mib: int = Field(default=64, ge=1)
    max_wall_s: float | None = Field(default=None, gt=0, le=3600)
    """As each `max_…`: what a skill can raise its limit to; no higher than the limit itself if absent."""
    max_cpu_s: int | None = Field(default=None, ge=1, le=3600)
    max_memory_mib: int | None = Field(default=None, ge=64)
    max_processes: int | None = Field(default=None, ge=1, le=4096)
    max_output_mib: int | None = Field(default=None, ge=1, le=64)
    max_artifacts: int | None = Field(default=None, ge=0, le=256)
    max_artifacts_mib: int | None = Field(default=None, ge=1, le=1024)
    max_work_mib: int | None = Field(default=None, ge=1)
    kept_skills: int = Field(default=200, ge=1)
    """Skills that stay unpacked; the least recently run go first."""
    dependencies: bool | None = None
    """Whether the packages that skills declare are had for them; if not, scripts run with what the machine has. If
    absent, they are had for the languages whose index is named: a machine asks nobody that its operator has not named.
    """
    index_url: SecretStr | None = None
    """Where Python packages come from, alone; uv's own if absent. It may hold a user and a password, as the next."""
    npm_registry: SecretStr | None = None
    """Where Node packages come from, alone; npm's own if absent."""
    dependencies_s: float = Field(default=120.0, gt=0)
    """The longest that packages of one skill may take to come."""
    layer_mib: int = Field(default=512, ge=1)
    """Of the packages of one skill."""
    layers_mib: int = Field(default=4096, ge=1)
    """Of those of all skills; the least recently used go first."""
    private_networks: str = ""
    """Networks like `10.1.2.0/24`, by commas, where approved places may lie although they are none of the internet."""
    network_mib: int = Field(default=64, ge=1)
    """What one run may send and receive, together."""
    cgroup: str = "auto"
    """`auto`: cgroups where they are delegated, else a watchdog; `off`: the watchdog; or the folder of a cgroup."""
    cpus: float | None = Field(default=None, ge=0.01)
    """Processors that a run may use at once; wants a cgroup with the cpu controller."""
    engine: Literal["bubblewrap", "runsc"] = "bubblewrap"
    """Program that isolates runs. While it is missing, every run is refused: no other engine takes its place."""

    @field_validator("private_networks")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        parse_networks(text)
        return text

    @property
    def egress(self) -> EgressPolicy:
        """What runs with a network may move, and where to."""
        return EgressPolicy(parse_networks(self.private_networks), bytes_max=self.network_mib * MIB)

    @model_validator(mode="after")
    def _ceilings_are_above(self) -> Self:
        pairs = (
            ("wall_s", self.wall_s, self.max_wall_s),
            ("cpu_s", self.cpu_s, self.max_cpu_s),
            ("memory_mib", self.memory_mib, self.max_memory_mib),
            ("processes", self.processes, self.max_processes),
            ("output_mib", self.output_mib, self.max_output_mib),
            ("artifacts", self.artifacts, self.max_artifacts),
            ("artifacts_mib", self.artifacts_mib, self.max_artifacts_mib),
            ("work_mib", self.work_mib, self.max_work_mib),
        )
        for name, limit, most in pairs:
            if most is not None and most < limit:
                raise ValueError(f"max_{name} is {most}, below {name}, which is {limit}: set both")
        return self

    @property
    def bounds(self) -> Bounds:
        """The limits of runs."""
        default = Limits(
            wall_s=self.wall_s,
            cpu_s=self.cpu_s,
            memory_bytes=self.memory_mib * MIB,
            processes=self.processes,
            output_bytes=self.output_mib * MIB,
            artifacts=self.artifacts,
            artifacts_bytes=self.artifacts_mib * MIB,
            work_bytes=self.work_mib * MIB,
        )
        ceiling = Limits(
            wall_s=self.max_wall_s or self.wall_s,
            cpu_s=self.max_cpu_s or self.cpu_s,
            memory_bytes=(self.max_memory_mib or self.memory_mib) * MIB,
            processes=self.max_processes or self.processes,
            output_bytes=(self.max_output_mib or self.output_mib) * MIB,
            artifacts=self.max_artifacts or self.artifacts,
            artifacts_bytes=(self.max_artifacts_mib or self.artifacts_mib) * MIB,
            work_bytes=(self.max_work_mib or self.work_mib) * MIB,
        )
        return Bounds(fitting(default), fitting(ceiling), self.slots, self.waiting)
