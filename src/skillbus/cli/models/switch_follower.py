"""Following the change of indexes to another model."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from skillbus.cli.errors import NoAnswerError, ProblemError, StoppedError, SwitchGivenUpError, SwitchNotBegunError

if TYPE_CHECKING:
    from skillbus.cli.client.models import ModelsClient
    from skillbus.cli.output import Output
    from skillbus.contracts.indexer.index_switch import IndexState, IndexSwitch

POLL_S: Final = 0.25
PATIENCE_S: Final = 30.0
"""For the indexer to begin, and for services that are away to come back: a change outlives their restart."""
_RUNNING: Final = frozenset({"building", "backfilling", "verifying"})
_GIVEN_UP: Final = "rolled_back"
_HOW_FAR: Final = "It goes on by itself: `skillbus index status` shows how far it is."


async def follow_switch(
    client: ModelsClient, output: Output, fingerprint: str, *, only: str | None = None, patience_s: float = PATIENCE_S
) -> tuple[IndexState, ...]:
    """The indexes, once each is searched with vectors of that fingerprint.

    Raises:
        SwitchGivenUpError: One was rolled back.
        SwitchNotBegunError: One is not on its way there.
        StoppedError: Ctrl-C.
        ProblemError, NoAnswerError: The server has been away for too long, or refuses.
    """
    began = monotonic()
    with output.bars() as show:
        try:
            while True:
                states = await _asked(client, only, patience_s)
                for state in states:
                    if (switch := _towards(state, fingerprint)) is not None:
                        show(state.alias, _step(switch), switch.done, switch.total)
                if all(_arrived(state, fingerprint) for state in states):
                    return states
                if all(_arrived(state, fingerprint) or _on_its_way(state, fingerprint) for state in states):
                    began = monotonic()
                elif monotonic() - began > patience_s:
                    raise _not_begun(states, fingerprint, patience_s)
                await asyncio.sleep(POLL_S)
        except asyncio.CancelledError:
            raise StoppedError("the change to the model is followed no more", _HOW_FAR) from None


def is_running(switch: IndexSwitch | None) -> bool:
    """Whether an index is on its way."""
    return switch is not None and switch.phase in _RUNNING


async def _asked(client: ModelsClient, only: str | None, patience_s: float) -> tuple[IndexState, ...]:
    """The indexes; services that are away are waited for."""
    until = monotonic() + patience_s
    while True:
        try:
            found = (await client.indexes()).indexes
            return tuple(state for state in found if only == state.alias or (only is None and _has_begun(state)))
        except (ProblemError, NoAnswerError) as error:
            lasting = isinstance(error, ProblemError) and not error.problem.get("retryable")
            if lasting or monotonic() > until:
                raise
        await asyncio.sleep(POLL_S)


def _has_begun(state: IndexState) -> bool:
    """Whether there is anything in it: without its service an index is not made."""
    return state.live is not None or state.switch is not None


def _towards(state: IndexState, fingerprint: str) -> IndexSwitch | None:
    """The change to that model. Raises SwitchGivenUpError if it was rolled back."""
    switch = state.switch
    if switch is None or switch.target.fingerprint != fingerprint:
        return None
    if switch.phase == _GIVEN_UP:
        raise SwitchGivenUpError(
            f"{state.alias} is searched as before", f"`skillbus index switch {state.alias}` tries it again."
        )
    return switch


def _on_its_way(state: IndexState, fingerprint: str) -> bool:
    switch = state.switch
    return switch is not None and switch.target.fingerprint == fingerprint and is_running(switch)


def _arrived(state: IndexState, fingerprint: str) -> bool:
    live = state.live is not None and state.live.fingerprint == fingerprint
    return live and not is_running(state.switch)


def _step(switch: IndexSwitch) -> str:
    waits = f", waits: {switch.problem}" if switch.problem else ""
    return f"{switch.phase.value} with {switch.target.name or switch.target.fingerprint}{waits}"


def _not_begun(states: tuple[IndexState, ...], fingerprint: str, patience_s: float) -> SwitchNotBegunError:
    names = ", ".join(state.alias for state in states if not _arrived(state, fingerprint))
    return SwitchNotBegunError(
        f"{names}: no change to the model has begun within {patience_s:g} s",
        "`skillbus status` shows whether the indexer is there, `skillbus index status` what it does.",
    )
