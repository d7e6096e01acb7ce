"""Settings of the sandbox service."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.common.outbound.addresses import AddressRule
from skillbus.sandbox.domain.egress_policy import EgressPolicy
from skillbus.sandbox.domain.run.limits import MIB, Limits, RunBounds, complete_limits


class SandboxSettings(BaseSettings):
    """Settings read from `SKILLBUS_SANDBOX_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_SANDBOX_", frozen=True)

    data: Path = Path("data/sandbox")
    """Folder for unpacked skills: a cache that may be deleted while nothing runs."""
    slots: int = Field(default=2, ge=1)
    """Concurrent runs."""
    warm: int = Field(default=2, ge=0, le=64)
    """Warm sandboxes of each of the four projects that ran skills last; about 5 MB each."""
    forks: int = Field(default=32, ge=1, le=10_000)
    """Most runs that are forked from one interpreter and share its address layout; 1 gives each run its own
    interpreter, which costs processor time.
    """
    program_slots: int = Field(default=2, ge=1)
    """Concurrent programs of `run_code`, besides the runs of skills: a program waits for the skills that it calls."""
    waiting: int = Field(default=128, ge=0)
    """Runs that may wait for a slot, until their callers' deadlines; more are refused with 429."""
    wall_s: float = Field(default=60.0, gt=0, le=3600)
    """Wall-clock limit of a run in seconds, unless its skill declares another; a request can ask for less."""
    cpu_s: int = Field(default=60, ge=1, le=3600)
    """CPU time limit of each process, in seconds."""
    memory_mib: int = Field(default=512, ge=64)
    processes: int = Field(default=64, ge=1, le=4096)
    output_mib: int = Field(default=10, ge=1, le=64)
    artifacts: int = Field(default=64, ge=0, le=256)
    """Most artifacts of a run. The reply names each: 256 fit into a message with any names."""
    artifacts_mib: int = Field(default=32, ge=1, le=1024)
    work_mib: int = Field(default=64, ge=1)
    max_wall_s: float | None = Field(default=None, gt=0, le=3600)
    """Highest value that a skill can declare for this limit, as for each `max_…`; the limit itself if absent."""
    max_cpu_s: int | None = Field(default=None, ge=1, le=3600)
    max_memory_mib: int | None = Field(default=None, ge=64)
    max_processes: int | None = Field(default=None, ge=1, le=4096)
    max_output_mib: int | None = Field(default=None, ge=1, le=64)
    max_artifacts: int | None = Field(default=None, ge=0, le=256)
    max_artifacts_mib: int | None = Field(default=None, ge=1, le=1024)
    max_work_mib: int | None = Field(default=None, ge=1)
    kept_skills: int = Field(default=200, ge=1)
    """Unpacked skills that are kept; the least recently run are removed first."""
    dependencies: bool | None = None
    """Install the packages that skills declare. If absent, only for languages with an index below, so that
    skillbus never contacts an index that the operator has not named.
    """
    index_url: SecretStr | None = None
    """Only index for Python packages; uv's default if absent. It may contain a user and a password."""
    npm_registry: SecretStr | None = None
    """Only registry for Node packages; npm's default if absent. It may contain a user and a password."""
    dependencies_s: float = Field(default=120.0, gt=0)
    """Time limit for installing the packages of one skill, in seconds."""
    layer_mib: int = Field(default=512, ge=1)
    """Size limit for the packages of one skill."""
    layers_mib: int = Field(default=4096, ge=1)
    """Size limit for the packages of all skills; the least recently used are removed first."""
    private_addresses: str = ""
    """Names, addresses and networks like `10.1.2.0/24`, separated by commas, that are not public and that approved
    places may have."""
    network_mib: int = Field(default=64, ge=1)
    """Traffic limit of one run, both directions together."""
    cgroup: str = "auto"
    """`auto`: cgroups if they are delegated, else a watchdog; `off`: the watchdog; or the folder of a cgroup."""
    cpus: float | None = Field(default=None, ge=0.01)
    """Processors that a run may use; requires a cgroup with the cpu controller."""
    engine: Literal["bubblewrap", "runsc"] = "bubblewrap"
    """Program that isolates runs. If it is missing, every run is refused; no other engine replaces it."""

    @field_validator("private_addresses")
    @classmethod
    def _are_addresses(cls, text: str) -> str:
        AddressRule.parse(text)
        return text

    @property
    def egress(self) -> EgressPolicy:
        """Limits on the traffic of runs with a network."""
        return EgressPolicy(
            AddressRule.parse(self.private_addresses, "SKILLBUS_SANDBOX_PRIVATE_ADDRESSES"),
            bytes_max=self.network_mib * MIB,
        )

    @model_validator(mode="after")
    def _ceilings_are_above(self) -> Self:
        values = self.model_dump()
        for highest, most in values.items():
            name = highest.removeprefix("max_")
            if name != highest and most is not None and most < values[name]:
                raise ValueError(f"{highest} is {most}, below {name}, which is {values[name]}: set both")
        return self

    @property
    def bounds(self) -> RunBounds:
        """Limits of runs."""
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
        return RunBounds(complete_limits(default), complete_limits(ceiling), self.slots, self.waiting)
