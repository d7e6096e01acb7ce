"""One call of `add_argument`, read as a JSON Schema property."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from skillbus.indexer.domain.literals import Unknown, small_literal

_SWITCHES = frozenset({"store_true", "store_false", "store_const", "append_const", "count"})
_LISTS = frozenset({"append", "extend"})
_TYPES = {"int": "integer", "float": "number", "str": "string"}
_PATHS = frozenset({"Path", "pathlib.Path", "PurePath", "argparse.FileType", "FileType"})
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a script. `flag` is "" if it is positional."""

    name: str
    flag: str
    required: bool
    property: dict[str, JsonValue]


def read_call(call: ast.Call, constants: Mapping[str, JsonValue]) -> tuple[Argument, ...] | None:
    """What a call adds: nothing for help and version, two for a flag with its negation; None if it cannot be read."""
    names = [small_literal(argument, constants) for argument in call.args]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    known = {key: small_literal(value, constants) for key, value in keywords.items()}
    flags = [name for name in names if isinstance(name, str) and name]
    if not flags or len(flags) != len(names) or any(keyword.arg is None for keyword in call.keywords):
        return None
    action = _action(keywords.get("action"), known.get("action", "store"))
    if action is None:
        return None
    if action in {"help", "version"}:
        return ()
    if not flags[0].startswith("-"):
        return (_positional(flags[0], keywords, known, action),)
    return _optional(flags, keywords, known, action)


def _action(node: ast.expr | None, value: JsonValue | Unknown) -> str | None:
    if isinstance(value, str):
        return value
    is_boolean = node is not None and ast.unparse(node).endswith("BooleanOptionalAction")
    return "boolean" if is_boolean else None


def _positional(
    name: str, keywords: Mapping[str, ast.expr], known: Mapping[str, JsonValue | Unknown], action: str
) -> Argument:
    nargs = known.get("nargs")
    has_default = known.get("default") is not None and nargs in {"?", "*"}
    required = nargs not in {"?", "*", "..."} and not has_default and "REMAINDER" not in _source(keywords.get("nargs"))
    return Argument(name, "", required, _property(keywords, known, action, is_flag=False))


def _optional(
    flags: list[str], keywords: Mapping[str, ast.expr], known: Mapping[str, JsonValue | Unknown], action: str
) -> tuple[Argument, ...]:
    flag = next((name for name in flags if name.startswith("--")), flags[0])
    from_flag = flag.lstrip("-").replace("-", "_")
    dest = known.get("dest")
    required = known.get("required") is True
    described = _description(known)
    if action == "boolean":
        off: dict[str, JsonValue] = {"type": "boolean", "description": f"Turn off: {from_flag}"}
        negation = Argument(f"no_{from_flag}", f"--no-{flag.lstrip('-')}", required=False, property=off)
        return Argument(from_flag, flag, required=False, property={"type": "boolean", **described}), negation
    # A switch that stores something else than true is called as its flag is: its dest says the opposite or a choice.
    name = dest if isinstance(dest, str) and action not in _SWITCHES - {"store_true", "count"} else from_flag
    if action in _SWITCHES:
        return (Argument(name, flag, required, {"type": "boolean", **described}),)
    return (Argument(name, flag, required, _property(keywords, known, action, is_flag=True)),)


def _property(
    keywords: Mapping[str, ast.expr], known: Mapping[str, JsonValue | Unknown], action: str, *, is_flag: bool
) -> dict[str, JsonValue]:
    item = _item(keywords.get("type"), known.get("choices"))
    described = {**_description(known), **_default(known.get("default"))}
    bounds = _bounds(known.get("nargs"), _source(keywords.get("nargs")))
    if bounds is not None:
        takes_all: dict[str, JsonValue] = {"x-nargs": "+"} if is_flag else {}
        return {"type": "array", "items": item, **bounds, **takes_all, **described}
    if action in _LISTS:
        return {"type": "array", "items": item, **described}
    return {**item, **described}


def _item(type_node: ast.expr | None, choices: JsonValue | Unknown) -> dict[str, JsonValue]:
    if isinstance(choices, list) and choices:
        return {"enum": choices}
    written = _source(type_node)
    if not written or written in _PATHS or written.split("(")[0] in _PATHS:
        return {"type": "string"}
    # A callable of the script's own: text or a number is for it to judge.
    return {"type": _TYPES[written]} if written in _TYPES else {"type": ["string", "number"]}


def _bounds(nargs: JsonValue | Unknown, written: str) -> dict[str, JsonValue] | None:
    """How many values a list takes; None for a single value."""
    if isinstance(nargs, int) and not isinstance(nargs, bool):
        return {"minItems": nargs, "maxItems": nargs}
    if nargs in {"+", "*", "..."} or "REMAINDER" in written:
        return {"minItems": 1} if nargs == "+" else {}
    return None


def _source(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _description(known: Mapping[str, JsonValue | Unknown]) -> dict[str, JsonValue]:
    text = known.get("help")
    if not isinstance(text, str) or not text.strip():
        return {}
    shown = str(known.get("default")) if not isinstance(known.get("default"), Unknown) else "computed"
    plain = " ".join(text.replace("%(default)s", shown).replace("%%", "%").split())
    return {"description": plain[:_MAX_TEXT]}


def _default(value: JsonValue | Unknown) -> dict[str, JsonValue]:
    return {} if value is None or isinstance(value, Unknown) else {"default": value}
