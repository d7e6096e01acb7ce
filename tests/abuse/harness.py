"""Runs a payload in a sandbox and says what it got through: by its own word, and by what is seen from outside."""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.common.testing import eventually
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.kernel.watchdog import list_process_tree
from skillbus.sandbox.domain.egress_policy import HostPort
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.result import parse_result
from skillbus.sandbox.domain.run.spec import ISOLATING, IsolationLevel, RunOutcome, RunSpec, is_safe_name

from .canaries import Planted
from .leftovers import Traces
from .model import Abuse, find_runtime
from .weakening import Weakened

PAYLOADS: Final = Path(__file__).parent / "payloads"
PLACE: Final = "tests/abuse/payloads"
"""Of the payloads in their skill: as in this repository, so that they import alike."""
HELPERS: Final = ("verdict.py", "verdict.js")
USER: Final = 1_100_000 + os.getpid()
"""This test process's own, so that what is left of its runs is told from others'."""
_GOT_THROUGH: Final = "through: "
_HANGS_S: Final = 40.0


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run skills that the suite goes through."""

    level: IsolationLevel
    warm: int = 0
    """Sandboxes that wait for runs."""
    network: tuple[HostPort, ...] = ()
    """Places that runs may reach: another filter, and a proxy beside them."""

    def __str__(self) -> str:
        return f"{self.level}{', warm' if self.warm else ''}{', network' if self.network else ''}"


WAYS: Final = (
    *(Way(level) for level in ISOLATING),
    Way(IsolationLevel.FULL, warm=1),
    Way(IsolationLevel.FULL, network=(HostPort.parse("approved.invalid:443"),)),
)
"""Never without isolation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a payload."""

    through: frozenset[str]
    """Everything that did not hold; nothing if all did."""
    outcomes: tuple[RunOutcome, ...]

    def __str__(self) -> str:
        last = self.outcomes[-1]
        ended = f"{last.status} {last.exit_code} {last.detail!r}"
        return f"{sorted(self.through)}, {ended}\n{last.stdout[-2000:]!r}\n{last.stderr[-4000:]!r}"


class Harness:
    """One sandbox, the canaries around it, and what it left."""

    def __init__(self, isolation: BubblewrapIsolation, planted: Planted, way: Way) -> None:
        self._isolation = isolation
        self._planted = planted
        self.way = way
        self._warm = way.warm
        self._traces = Traces((USER,) if os.geteuid() == 0 else ())
        self.held: set[str] = set()
        """Names of cases that have held."""

    async def judge(self, abuse: Abuse, limits: Limits, argv: tuple[str, ...]) -> Verdict:
        """Run it as often as it wants to be run, and look around after each time."""
        await self._settle()
        through, outcomes = set[str](), []
        self._planted.neighbour.revive()
        with _skill(abuse, self._planted) as folder:
            for _ in range(abuse.runs):
                outcomes.append(await self._run(abuse, folder, limits, argv))
                through |= set(self._at_once())
                await self._settle()
                through |= {*_of_outcome(abuse, outcomes[-1]), *self._around(outcomes[-1])}
        return Verdict(frozenset(through), tuple(outcomes))

    async def unleash(self, abuse: Abuse) -> Verdict:
        """Run it once, beside others: what it says and how it ends count, for what is around is not its alone."""
        with _skill(abuse, self._planted) as folder:
            outcome = await self._run(abuse, folder, abuse.limits, abuse.argv)
        return Verdict(frozenset(_of_outcome(abuse, outcome)), (outcome,))

    def clean(self) -> None:
        """What a weakened sandbox left is removed."""
        self._traces.sweep(self._known())
        self._planted.clean()

    async def _run(self, abuse: Abuse, folder: Path, limits: Limits, argv: tuple[str, ...]) -> RunOutcome:
        stdin = json.dumps(self._planted.told()).encode() if abuse.stdin is None else abuse.stdin
        script = f"{PLACE}/{abuse.payload}"
        async with asyncio.timeout(_HANGS_S):
            return await self._isolation.run(
                RunSpec(
                    folder,
                    script,
                    find_runtime(script),
                    argv,
                    stdin=stdin,
                    limits=limits,
                    network=self.way.network,
                    layer=folder.parent / "layer" if abuse.packages else None,
                )
            )

    def _at_once(self) -> Iterator[str]:
        """What must not be there any more when the run returns; with a pool, others may be starting by then."""
        if not self._warm and set(self._traces.inside()) - self._known():
            yield "a process outlived the run"

    async def _settle(self) -> None:
        """Until the sandboxes wait that are to, and none is being made: then what else is there is left over."""
        await self._isolation.wait_until_clean()
        if self._warm:

            async def settled() -> bool:
                return not self._isolation.missing and set(self._traces.processes()) <= self._known()

            with suppress(AssertionError):  # what is left then is named
                await eventually(settled, bool)

    def _known(self) -> set[int]:
        waiting = self._isolation.waiting_pids if self._warm else ()
        return {self._planted.neighbour.pid, *list_process_tree(waiting)}

    def _around(self, outcome: RunOutcome) -> Iterator[str]:
        waiting = self._isolation.waiting if self._warm else 0
        yield from self._traces.left(self._known(), waiting)
        if not self._planted.neighbour.is_alive():
            yield "the neighbour is dead"
        yield from (f"{name} was heard" for name in self._planted.heard())
        given = (outcome.stdout, outcome.stderr, *(artifact.content for artifact in outcome.artifacts))
        if any(self._planted.secret.encode() in content for content in given):
            yield "the secret was told"


def _of_outcome(abuse: Abuse, outcome: RunOutcome) -> Iterator[str]:
    limits, said = abuse.limits, outcome.stdout.decode(errors="replace").splitlines()
    if outcome.status not in abuse.ends_by:
        yield f"ended by {outcome.status}"
    yield from (line.removeprefix(_GOT_THROUGH) for line in said if line.startswith(_GOT_THROUGH))
    if outcome.status is RunStatus.OK and not abuse.silent and "done" not in said:
        yield "no verdict"
    if len(outcome.stdout) + len(outcome.stderr) > limits.output_bytes:
        yield "more output than its limit"
    if len(outcome.artifacts) > limits.artifacts:
        yield "more artifacts than their limit"
    if sum(len(artifact.content) for artifact in outcome.artifacts) > limits.artifacts_bytes:
        yield "larger artifacts than their limit"
    for artifact in outcome.artifacts:
        if not is_safe_name(artifact.name) or (abuse.artifacts is not None and artifact.name not in abuse.artifacts):
            yield f"artifact {artifact.name}"
    if abuse.leaves_out and not outcome.truncated:
        yield "left out without a word"
    if abuse.silent and outcome.status is RunStatus.OK and parse_result(outcome.stdout) is not None:
        yield "taken for a result"


@contextmanager
def _skill(abuse: Abuse, planted: Planted) -> Iterator[Path]:
    """The payload's skill: open to all, and writable to all, so that only the sandbox keeps it as it is."""
    with tempfile.TemporaryDirectory(prefix="skillbus-skill-") as folder:
        root = Path(folder, "skill")
        place = root / PLACE
        place.mkdir(parents=True)
        for name in (abuse.payload, *HELPERS):
            shutil.copy(PAYLOADS / name, place)
        for name, content in abuse.ships.items():
            place.joinpath(name).write_text(content)
        place.joinpath("way_out").symlink_to(planted.folder / "secret.txt")
        place.joinpath("folder_out").symlink_to(planted.folder)
        layer = Path(folder, "layer")
        layer.mkdir()
        layer.joinpath("shared.txt").write_text("theirs\n")
        Path(folder).chmod(0o755)
        for path in (root, layer, *root.rglob("*"), *layer.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o777 if path.is_dir() else 0o666)
        yield root


@asynccontextmanager
async def opened(way: Way, planted: Planted) -> AsyncIterator[Harness]:
    """Every sandbox of the suite that is as it should be is made here.

    Raises:
        SandboxUnavailable: the level does not hold on this machine.
    """
    async with BubblewrapIsolation(user=USER, levels=(way.level,), warm=way.warm) as isolation:
        await isolation.probe()
        yield Harness(isolation, planted, way)


def weakened(abuse: Abuse, level: IsolationLevel, planted: Planted) -> Harness:
    """A sandbox in which the case's payload is to get through."""
    return Harness(Weakened(level, abuse.weakening.steps, planted, USER), planted, Way(level))
