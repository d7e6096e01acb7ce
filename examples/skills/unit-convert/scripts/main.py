"""Converts {"value", "from", "to"?} between the units of `units`."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from skillio import Arguments, SkillError, run, text_of
from units import TEMPERATURES, UNITS


@dataclass(frozen=True, slots=True)
class Unit:
    """A value v in this unit is v × size + zero in the quantity's base unit."""

    name: str
    quantity: str
    size: Fraction
    zero: Fraction = Fraction(0)


def convert(arguments: Arguments) -> dict[str, object]:
    known = units_by_alias()
    source = unit_named(text_of(arguments, "from"), known)
    base = value_of(arguments) * source.size + source.zero
    if source.quantity == "temperature" and base < 0:
        raise SkillError("this is below absolute zero")
    if "to" not in arguments:
        alike = {unit.name: unit for unit in known.values() if unit.quantity == source.quantity}
        return {"quantity": source.quantity, "values": {name: number(base, unit) for name, unit in alike.items()}}
    target = unit_named(text_of(arguments, "to"), known)
    if target.quantity != source.quantity:
        raise SkillError(f"{source.name} measures {source.quantity}, {target.name} measures {target.quantity}")
    value = number(base, target)
    text = f"{arguments['value']} {text_of(arguments, 'from')} = {value:.10g} {text_of(arguments, 'to')}"
    return {"quantity": source.quantity, "value": value, "text": text}


def value_of(arguments: Arguments) -> Fraction:
    value = arguments.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SkillError("argument 'value' must be a finite number")
    return Fraction(str(value))


def number(base: Fraction, unit: Unit) -> float:
    try:
        return float(f"{float((base - unit.zero) / unit.size):.15g}")
    except OverflowError:
        raise SkillError("the value is too large") from None


def units_by_alias() -> Mapping[str, Unit]:
    known: dict[str, Unit] = {}
    for quantity, units in UNITS.items():
        for name, (size, aliases) in units.items():
            known |= dict.fromkeys([name, *aliases.split()], Unit(name, quantity, Fraction(size)))
    for name, (size, zero, aliases) in TEMPERATURES.items():
        known |= dict.fromkeys([name, *aliases.split()], Unit(name, "temperature", Fraction(size), Fraction(zero)))
    return known


def unit_named(text: str, known: Mapping[str, Unit]) -> Unit:
    key = "-".join(text.strip().casefold().split())
    if key in known:
        return known[key]
    near = difflib.get_close_matches(key, known, n=5, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"quantities: {', '.join([*UNITS, 'temperature'])}"
    raise SkillError(f"unknown unit {text[:40]!r}; {hint}")


if __name__ == "__main__":
    run(convert)
