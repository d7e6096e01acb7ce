"""Waiting for indexes to switch to another model."""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from skillbus.cli.client.http_api import INDEXES
from skillbus.cli.errors import NoAnswerError, ProblemError, StoppedError, SwitchNotBegunError, SwitchRolledBackError
from skillbus.cli.output import CommandOutput, ShowStep
from skillbus.contracts.indexer.index_switch import IndexesListed, IndexState, IndexSwitch, SwitchPhase

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

POLL_S: Final = 0.25
PATIENCE_S: Final = 30.0
"""Seconds for the indexer to begin, and for services that restart: a switch continues after their restart."""
_RUNNING: Final = frozenset({SwitchPhase.BUILDING, SwitchPhase.BACKFILLING, SwitchPhase.VERIFYING})


async def follow_switch(
    connection: "ApiConnection",
    output: CommandOutput,
    fingerprint: str,
    *,
    only: str | None = None,
    patience_s: float = PATIENCE_S,
) -> tuple[IndexState, ...]:
    """Wait until each index, or `only` one, uses the model with this fingerprint, and return their states.

    Raises:
        SwitchRolledBackError: One was rolled back.
        SwitchNotBegunError: One does not switch to this model.
        StoppedError: Ctrl-C.
        ProblemError, NoAnswerError: The server refused, or did not answer for `patience_s`.
    """
    began = monotonic()
    with output.show_steps() as show_step:
        try:
            while True:
                states = await _list_states(connection, only, patience_s)
                has_switched = [
                    state.live is not None and state.live.fingerprint == fingerprint and not is_running(state.switch)
                    for state in states
                ]
                is_switching = [_show_switch(state, fingerprint, show_step) for state in states]
                if all(has_switched):
                    return states
                if all(map(any, zip(has_switched, is_switching, strict=True))):
                    began = monotonic()
                elif monotonic() - began > patience_s:
                    names = [state.alias for state, done in zip(states, has_switched, strict=True) if not done]
                    raise SwitchNotBegunError(
                        f"{', '.join(names)}: no switch to the model has begun within {patience_s:g} s",
                        "`skillbus status` shows whether the indexer runs, `skillbus index list` what it does.",
                    )
                await asyncio.sleep(POLL_S)
        except asyncio.CancelledError:
            advice = "The switch continues: `skillbus index list` shows its progress."
            raise StoppedError("this command no longer waits for the switch", advice) from None


def is_running(switch: IndexSwitch | None) -> bool:
    """Return True if a switch is neither done nor rolled back."""
    return switch is not None and switch.phase in _RUNNING


async def _list_states(connection: "ApiConnection", only: str | None, patience_s: float) -> tuple[IndexState, ...]:
    """Return the states of the indexes that exist. An unavailable service is asked again for `patience_s`."""
    deadline = monotonic() + patience_s
    while True:
        try:
            found = (await connection.request(IndexesListed, "GET", INDEXES)).indexes
            if only is not None:
                return tuple(state for state in found if state.alias == only)
            # Without its service, an index is listed but has neither a model nor a switch.
            return tuple(state for state in found if state.live is not None or state.switch is not None)
        except (ProblemError, NoAnswerError) as error:
            is_final = isinstance(error, ProblemError) and not error.problem.get("retryable")
            if is_final or monotonic() > deadline:
                raise
        await asyncio.sleep(POLL_S)


def _show_switch(state: IndexState, fingerprint: str, show_step: ShowStep) -> bool:
    """Show the progress of a switch to this model. Return True while it runs; raise if it was rolled back."""
    switch = state.switch
    if switch is None or switch.target.fingerprint != fingerprint:
        return False
    if switch.phase is SwitchPhase.ROLLED_BACK:
        raise SwitchRolledBackError(
            f"{state.alias} uses its model of before", f"`skillbus index switch {state.alias}` tries again."
        )
    problem = f", waits: {switch.problem}" if switch.problem else ""
    step = f"{switch.phase.value} with {switch.target.name or switch.target.fingerprint}{problem}"
    show_step(state.alias, step, switch.done, switch.total)
    return is_running(switch)
