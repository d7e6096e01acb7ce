"""Command check: the command of each device that does what a sentence asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from skillbus.contracts.indexer.devices import Device
from skillbus.contracts.retriever.command_resolution import DropReason
from skillbus.contracts.retriever.query_ir import QueryArguments
from skillbus.retriever.domain.commands.ports import ScoredCommand
from skillbus.retriever.domain.resolution.arguments import ArgumentRefusedError, fill_arguments


@dataclass(frozen=True, slots=True)
class ChosenCommand:
    """Command with the arguments that the sentence gives, and its score for the action."""

    command: ScoredCommand
    score: float
    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class RefusedDevice:
    """Explanation why a device has no command for the action."""

    reason: DropReason
    detail: str
    best_score: float | None = None


CommandChoice = ChosenCommand | RefusedDevice


class CommandCheck:
    """Choice of commands for one action. Devices of the same capabilities and commands share it."""

    def __init__(self, commands: Sequence[ScoredCommand], given: QueryArguments, threshold: float) -> None:
        """Use commands with one score each, for the action."""
        self._given = given
        self._threshold = threshold
        self._by_capability: dict[str, list[ScoredCommand]] = {}
        self._by_id = {command.id: command for command in commands}
        for command in commands:
            self._by_capability.setdefault(command.capability, []).append(command)
        self._choices: dict[tuple[tuple[str, ...], tuple[str, ...]], CommandChoice] = {}

    def choose_command(self, device: Device) -> CommandChoice:
        """Return the best command of a device that reaches the threshold.

        If it refuses the values of the sentence, the next that takes one of them is chosen: a step instead of a level,
        but never a command that ignores them.
        """
        key = (device.capabilities, device.commands)
        if (choice := self._choices.get(key)) is None:
            choice = self._choices[key] = self._choose(*key)
        return choice

    def _choose(self, capabilities: Sequence[str], ids: Sequence[str]) -> CommandChoice:
        own = {command.id: command for each in capabilities for command in self._by_capability.get(each, ())}
        own |= {each: self._by_id[each] for each in ids if each in self._by_id}
        if not own:
            names = ", ".join((*capabilities, *ids))
            reason = f"The library has no command of {names}." if names else "It has no capabilities and no commands."
            return RefusedDevice(DropReason.NO_COMMANDS, reason[:500])
        ranked = sorted(own.values(), key=lambda command: (-command.scores[0], command.id))
        best = ranked[0]
        detail = f"The nearest command is {best.id} with {best.scores[0]:.2f}, below {self._threshold:g}."
        if unknown := [each for each in capabilities if each not in self._by_capability]:
            detail = f"{detail} The library has no command of {', '.join(unknown)}."[:500]
        refused = RefusedDevice(DropReason.NO_COMMAND_FITS, detail, best.scores[0])
        for command in ranked:
            if command.scores[0] < self._threshold:
                break
            try:
                filled = fill_arguments(command, self._given)
            except ArgumentRefusedError as error:
                if command is best:
                    refused = RefusedDevice(DropReason.ARGUMENT_REFUSED, f"{command.id}: {error}", command.scores[0])
                continue
            if filled or command is best:
                return ChosenCommand(command, command.scores[0], filled)
        return refused
