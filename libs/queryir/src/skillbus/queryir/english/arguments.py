"""Fills the arguments of a command from the values of its clause."""

from typing import Final

from skillbus.queryir.english.actions import Predicate
from skillbus.queryir.english.words.values import Value, ValueKind

_STEP: Final = 10.0
"""Size of a step that the sentence does not give, in percent."""
_DEGREES: Final = 1.0
"""Size of a step that the sentence does not give, in degrees."""
_DEGREE_KINDS: Final = frozenset({ValueKind.DEGREES, ValueKind.NUMBER})
_PERCENTS: Final = {"set_brightness": "brightness", "set_volume": "volume", "set_humidity": "humidity"}

Arguments = dict[str, float | int | str]


def fill_arguments(code: str | None, predicate: Predicate, count: int | None) -> Arguments:
    """Return the arguments of an action, as fields of `QueryArguments`."""
    arguments: Arguments = {} if count is None else {"count": count}
    for timed in predicate.values:
        _fill_time(arguments, timed)
    mode = next((one for one in predicate.values if one.kind is ValueKind.MODE), None)
    if mode is not None and code == "set_temperature":
        arguments["mode"] = mode.text[:100]
    value = predicate.get_value()
    direction = predicate.get_direction()
    step = (direction != 0 and (value is None or not value.to)) or (value is not None and value.by)
    if code in _PERCENTS:
        _fill_percent(arguments, _PERCENTS[code], value, step=step, direction=direction)
    elif code == "set_position" and value is not None:
        _fill_percent(arguments, "position", value, step=False, direction=0)
    elif code == "set_temperature":
        _fill_temperature(arguments, value, step=step, direction=direction)
    elif value is not None:
        _fill_choice(arguments, code, value)
    return arguments


def _fill_choice(arguments: Arguments, code: str | None, value: Value) -> None:
    """Fill what is chosen: a colour, mode, speed or channel."""
    match code, value.kind:
        case "set_color", ValueKind.COLOUR:
            arguments["colour"] = value.text
        case "set_color_temperature", ValueKind.KELVIN:
            arguments["colour_temperature"] = min(max(value.number, 1_000.0), 20_000.0)
        case "set_mode", ValueKind.MODE:
            arguments["mode"] = value.text[:100]
        case (("set_channel" | "set_source"), ValueKind.NUMBER):
            arguments["channel"] = f"{value.number:g}"
        case "set_speed", _:
            _fill_speed(arguments, value)
        case _:
            pass


def _fill_time(arguments: Arguments, value: Value) -> None:
    match value.kind:
        case ValueKind.AT:
            arguments["at"] = value.text
        case ValueKind.AFTER:
            arguments["after_s"] = value.number
        case ValueKind.FOR:
            arguments["for_s"] = value.number
        case _:
            pass


def _fill_percent(arguments: Arguments, name: str, value: Value | None, *, step: bool, direction: int) -> None:
    if step and name != "humidity":
        amount = abs(value.number) if value is not None else _STEP
        arguments[f"{name}_step"] = min(amount, 100.0) * (direction or 1)
    elif value is not None and value.kind is ValueKind.HIGHEST:
        arguments[name] = 100.0
    elif value is not None and value.kind is ValueKind.LOWEST:
        arguments[name] = 1.0 if name == "brightness" else 0.0
    elif value is not None and value.kind in (ValueKind.PERCENT, ValueKind.NUMBER) and 0 <= value.number <= 100:
        arguments[name] = value.number


def _fill_temperature(arguments: Arguments, value: Value | None, *, step: bool, direction: int) -> None:
    if step:
        amount = abs(value.number) if value is not None else _DEGREES
        arguments["temperature_step"] = min(amount, 100.0) * (direction or 1)
    elif value is not None and value.kind in _DEGREE_KINDS and -100 <= value.number <= 1_000:
        arguments["temperature"] = value.number


def _fill_speed(arguments: Arguments, value: Value) -> None:
    if value.kind is ValueKind.MODE:
        arguments["mode"] = value.text[:100]
    elif value.kind in (ValueKind.HIGHEST, ValueKind.LOWEST):
        arguments["mode"] = "high" if value.kind is ValueKind.HIGHEST else "low"
    elif 0 <= value.number <= 100:
        arguments["level"] = int(value.number)
