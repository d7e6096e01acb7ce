"""Arguments of a command, filled with the values of a sentence."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.indexer.commands import CommandArgument
from skillbus.contracts.retriever.query_ir import QueryArguments
from skillbus.retriever.domain.commands.ports import ScoredCommand

_NAMED: Final = 10
"""Most accepted values that an explanation lists."""


class ArgumentRefusedError(Exception):
    """The command does not accept a value of the sentence, or needs one that it lacks. The message says which."""


def fill_arguments(command: ScoredCommand, given: QueryArguments) -> Mapping[str, JsonValue]:
    """Return the arguments of a command that a sentence gives, by the names that the command has for them.

    Raises:
        ArgumentRefusedError: A value is out of the range or not among the accepted ones, a required one is missing, or
            the sentence gives a step and the command takes only the whole value.
    """
    filled: dict[str, JsonValue] = {}
    sources = {argument.source for argument in command.arguments}
    for argument in command.arguments:
        value: str | float | None = None if argument.source is None else getattr(given, argument.source)
        if value is not None:
            filled[argument.name] = _check_value(argument, value)
        elif argument.required:
            missing = (
                f"a value for {argument.source}" if argument.source else "a value that sentences have no words for"
            )
            raise ArgumentRefusedError(f"{argument.name} needs {missing}.")
        elif _says_step(argument.source, given) and f"{argument.source}_step" not in sources:
            raise ArgumentRefusedError(f"{argument.name} needs a value for {argument.source}, and a step is none.")
    return filled


def _says_step(source: str | None, given: QueryArguments) -> bool:
    """Return True if the sentence gives a step of a value: 10 percent brighter."""
    return source is not None and getattr(given, f"{source}_step", None) is not None


def _check_value(argument: CommandArgument, value: str | float) -> JsonValue:
    if isinstance(value, float):
        if argument.minimum is not None and value < argument.minimum:
            raise ArgumentRefusedError(f"{argument.name} must be at least {argument.minimum:g}, not {value:g}.")
        if argument.maximum is not None and value > argument.maximum:
            raise ArgumentRefusedError(f"{argument.name} must be at most {argument.maximum:g}, not {value:g}.")
        if value.is_integer():
            value = int(value)
    if not argument.values:
        return value
    for accepted in argument.values:
        if accepted == value or str(accepted).casefold() == str(value).casefold():
            return accepted
    listed = ", ".join(str(accepted) for accepted in argument.values[:_NAMED])
    more = ", …" if len(argument.values) > _NAMED else ""
    raise ArgumentRefusedError(f"{argument.name} accepts {listed}{more}, not {value}.")
