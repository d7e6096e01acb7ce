"""The answer of a chat model, checked: it may only say what the sentence says."""

import json
import re
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.common.chat.structured_answer import find_json_objects
from skillbus.contracts.retriever.query_ir import MAX_QUERIES, Quantifier, QueryIR
from skillbus.queryir.actions import ActionCode, get_action_word
from skillbus.queryir.home import Home
from skillbus.queryir.sentence import Language
from skillbus.queryir.writing import fold_name, is_han

_QUOTED: Final = 60
_SEPARATORS: Final = re.compile(r"[\W_]+")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class AnswerUnreadableError(Exception):
    """The answer is not the JSON that was asked for. Another way to ask may help."""


class AnswerRefusedError(Exception):
    """The answer says what it must not say. The message says what."""


def read_answer(answer: str, sentence: str, language: Language, home: Home | None) -> tuple[QueryIR, ...]:
    """Return the queries of an answer, with the home's spelling of names and the usual words of actions.

    Raises:
        AnswerUnreadableError: The answer has no JSON object with `queries`.
        AnswerRefusedError: A field is unknown, out of range or of another type; there are too many queries; the
            sentence does not say a name or room; or an action is in another language.
    """
    values = _find_queries(answer)
    if len(values) > MAX_QUERIES:
        raise AnswerRefusedError(f"the answer has {len(values)} commands, over {MAX_QUERIES}")
    return tuple(_check_query(_parse_query(value), sentence, language, home) for value in values)


def _find_queries(answer: str) -> list[JsonValue]:
    for found in find_json_objects(answer):
        values = found.get("queries")
        if isinstance(values, list):
            if unknown := sorted(set(found) - {"queries"}):
                raise AnswerRefusedError(f"the answer has an unknown field: {unknown[0]!r:.{_QUOTED}}")
            return values
    raise AnswerUnreadableError("the answer is no JSON object with a list of `queries`")


def _parse_query(value: JsonValue) -> QueryIR:
    try:
        return QueryIR.model_validate_json(json.dumps(value, allow_nan=False), strict=True, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "query"
        raise AnswerRefusedError(f"the answer does not fit the schema: {where:.{_QUOTED}}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise AnswerRefusedError("the answer does not fit the schema: a number is not finite") from error


def _check_query(query: QueryIR, sentence: str, language: Language, home: Home | None) -> QueryIR:
    _check_words(query, sentence)
    name = query.name_hint and _spell(query.name_hint, home)
    return query.model_copy(
        update={
            "action": _name_action(query, language),
            "name_hint": name,
            "type_hint": None if name and _is_device(name, home) else query.type_hint,
            "scope_include": tuple(_spell(room, home) for room in query.scope_include),
            "scope_exclude": tuple(_spell(room, home) for room in query.scope_exclude),
            "quantifier": _check_quantifier(query),
        }
    )


def _check_words(query: QueryIR, sentence: str) -> None:
    for text in _list_texts(query):
        if not text.isprintable():
            raise AnswerRefusedError(f"the answer has characters that nobody speaks: {text!r:.{_QUOTED}}")
    if query.type_hint is not None and not _TYPE.fullmatch(query.type_hint):
        raise AnswerRefusedError(f"the answer has no type of devices: {query.type_hint!r:.{_QUOTED}}")
    said = filter(None, (query.name_hint, *query.scope_include, *query.scope_exclude))
    for name in said:
        if not _is_said(name, sentence):
            raise AnswerRefusedError(f"the sentence does not say {name!r:.{_QUOTED}}, which the answer names")


def _check_quantifier(query: QueryIR) -> Quantifier | None:
    """Return the quantifier. Without what it counts or leaves out, it would reach other devices than are meant."""
    if query.quantifier is Quantifier.EXCEPT and not query.scope_exclude:
        raise AnswerRefusedError("the answer leaves out something, and does not say what")
    if query.quantifier is Quantifier.COUNT and query.arguments.count is None:
        raise AnswerRefusedError("the answer counts devices, and does not say how many")
    if query.scope_exclude and query.quantifier in {None, Quantifier.ALL}:
        return Quantifier.EXCEPT
    return query.quantifier


def _list_texts(query: QueryIR) -> Iterator[str]:
    given = query.arguments
    texts = (query.action, query.name_hint, query.type_hint, given.colour, given.mode, given.channel)
    yield from (text for text in texts if text)
    yield from query.scope_include
    yield from query.scope_exclude


def _name_action(query: QueryIR, language: Language) -> str:
    """Return the usual word of the action's code; an action without a code keeps its own words."""
    if query.action_code is not None:
        try:
            return get_action_word(ActionCode(query.action_code), language)
        except ValueError:
            raise AnswerRefusedError(f"there is no action code {query.action_code!r:.{_QUOTED}}") from None
    if any(map(str.isalpha, query.action)) and any(map(is_han, query.action)) != (language == "zh"):
        raise AnswerRefusedError(f"the action {query.action!r:.{_QUOTED}} is not in the language of the sentence")
    return query.action


def _is_said(name: str, sentence: str) -> bool:
    folded, said = fold_name(name), fold_name(sentence)
    letters = _SEPARATORS.sub("", folded)
    return letters in _SEPARATORS.sub("", said) if letters else bool(folded) and folded in said


def _is_device(name: str, home: Home | None) -> bool:
    folded = fold_name(name)
    return home is not None and (folded in home.by_name or folded in home.by_alias)


def _spell(name: str, home: Home | None) -> str:
    """Return the home's spelling of a name, or the name."""
    if home is None:
        return name
    folded = fold_name(name)
    matches = home.match_names(folded, 0)
    return next((match.spelling for match in matches if match.end == len(folded)), name)
