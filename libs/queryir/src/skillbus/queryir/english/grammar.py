"""Grammar of English sentences: clauses, and what they take from one another."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from skillbus.contracts.retriever.query_ir import MAX_QUERIES, QueryIR
from skillbus.queryir.english.actions import Predicate, read_predicate
from skillbus.queryir.english.clauses import Clause, split_clauses
from skillbus.queryir.english.commands import read_command, take_type_words
from skillbus.queryir.english.drafts import Draft
from skillbus.queryir.english.exclusions import Exclusion, read_exclusion
from skillbus.queryir.english.lexicon.places import HERE, OWN_ROOM
from skillbus.queryir.english.questions import read_question
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.names import EnglishNames, load_names
from skillbus.queryir.english.words.roles import label_words
from skillbus.queryir.english.words.tokens import EnglishWord, split_words
from skillbus.queryir.english.words.values import ValueKind
from skillbus.queryir.home import Home
from skillbus.queryir.sentence import OWN_ROOM_DOUBT, ParsedSentence, SpeakerPlace
from skillbus.queryir.writing import FoldedText

_UNREAD_DOUBT: Final = 0.15
"""Confidence that each unread part of a sentence costs."""
_CONDITION_DOUBT: Final = 0.5
"""Confidence that a condition costs: nothing waits until it holds."""
_CONDITIONS: Final = frozenset({"if", "when", "whenever", "unless"})
_ASKING: Final = frozenset({"me", "us", "check", "know", "see", "tell", "ask", "look"})
"""Words before the `if` of a question."""
_POLITE: Final = frozenset({"you", "possible", "needed", "necessary"})
"""Words behind the `if` of a request."""
_WANTING: Final = frozenset({"want", "need", "wanting", "needing"})
_OPPOSITES: Final = {"turn_on": "turn_off", "open": "close"}
"""Actions that end what nobody wants: on, or open."""
_PREDICATES: Final = frozenset({EnglishRole.VERB, EnglishRole.VALUE, EnglishRole.QUESTION, EnglishRole.STEP})
_MEASURED: Final = frozenset({"temperature", "humidity"})
_MODALS: Final = frozenset({"can", "could", "would", "will", "please", "shall", "may"})
_SET: Final = frozenset({ValueKind.PERCENT, ValueKind.DEGREES, ValueKind.NUMBER, ValueKind.MODE, ValueKind.COLOUR})


def read_sentence(text: FoldedText, home: Home | None) -> ParsedSentence:
    """Read an English sentence. It accepts any text."""
    words = split_words(text)
    if not words:
        return ParsedSentence("en", unread=(text.original,) if text.text else ())
    names = load_names(home)
    items, question = label_words(words, names), False
    if text.text.rstrip().endswith("?") and not _tells(items, words):
        items, question = label_words(words, names, question=True), True
    unread: list[Item] = []
    drafts = _read_clauses(split_clauses(items, question=question), words, names, unread)
    spans = _join_spans(unread)
    quotes = tuple(text.quote_original(words[start].start, words[end - 1].end) for start, end in spans)
    doubt = _UNREAD_DOUBT * len(spans) + (_CONDITION_DOUBT if _has_condition(words) else 0)
    place = _find_place(items)
    doubt += OWN_ROOM_DOUBT if place is SpeakerPlace.OWN_ROOM else 0
    return ParsedSentence("en", _build_queries(drafts, doubt), quotes, place)


def _find_place(items: Sequence[Item]) -> SpeakerPlace | None:
    fillers = [item.text.split() for item in items if item.role is EnglishRole.FILLER]
    if any(OWN_ROOM.match(words, 0) for words in fillers):
        return SpeakerPlace.OWN_ROOM
    return SpeakerPlace.HERE if any(HERE.match(words, 0) for words in fillers) else None


def _has_condition(words: Sequence[EnglishWord]) -> bool:
    """Return True for a condition, as in "if it rains close the curtains". The polite "if you can" is none."""
    texts = ["", *(word.text for word in words), ""]
    return any(
        texts[at] in _CONDITIONS and texts[at - 1] not in _ASKING and texts[at + 1] not in _POLITE
        for at in range(1, len(texts) - 1)
    )


def _tells(items: Sequence[Item], words: Sequence[EnglishWord]) -> bool:
    """Return True for a sentence that is a command, or begins like a question, in spite of its question mark."""
    asked = any(word.text in _MODALS for word in words[:3])
    return asked or any(item.role in _PREDICATES for item in items)


def _build_queries(drafts: Sequence[Draft], doubt: float) -> tuple[QueryIR, ...]:
    queries: list[QueryIR] = []
    for draft in drafts:
        query = draft.build_query(doubt)
        said = query.action_code or query.name_hint or query.type_hint or query.scope_include or query.references
        if said and query not in queries and len(queries) < MAX_QUERIES:
            queries.append(query)
    return tuple(queries)


def _join_spans(unread: Sequence[Item]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for item in sorted(unread, key=lambda one: one.start):
        if spans and spans[-1][1] >= item.start:
            spans[-1] = (spans[-1][0], item.end)
        else:
            spans.append((item.start, item.end))
    return spans


def _read_clauses(
    clauses: Sequence[Clause], words: Sequence[EnglishWord], names: EnglishNames | None, unread: list[Item]
) -> list[Draft]:
    drafts: list[Draft] = []
    kept = Exclusion()
    rooms: list[str] = []
    previous: Predicate | None = None
    for clause in clauses:
        if not clause.question:
            clause.items = take_type_words(clause.items, names)
        if clause.statement and not clause.question:
            rooms += [item.meaning for item in clause.items if item.role is EnglishRole.ROOM]
        elif clause.question or _asks_measure(clause):
            clause.items = [_take_measure(item) for item in clause.items]
            drafts += read_question(clause.items, words, names, unread)
        elif (wish := _read_unwanted(clause)) is not None:
            found, previous = _read_one(wish, words, names, unread, previous, drafts)
            drafts += found
        elif _is_kept(clause, len(clauses)):
            # `do not turn off the globe, just the arc lamp`
            previous = read_predicate(clause.items) if clause.corrected else previous
            read_exclusion([item for item in clause.items if item.role is not EnglishRole.VERB], kept)
        else:
            found, previous = _read_one(clause, words, names, unread, previous, drafts)
            _add_rooms(found, rooms)
            drafts += found
    return _leave_out(drafts, kept)


def _asks_measure(clause: Clause) -> bool:
    """Return True for `temperature in the loft`: a measure without anything to do."""
    roles = {item.role for item in clause.items}
    measured = any(item.role is EnglishRole.ATTRIBUTE and item.meaning in _MEASURED for item in clause.items)
    return measured and roles.isdisjoint(_PREDICATES | {EnglishRole.PARTICLE, EnglishRole.KEEPER})


def _take_measure(item: Item) -> Item:
    measured = item.role is EnglishRole.ATTRIBUTE and item.meaning in _MEASURED
    return replace(item, role=EnglishRole.TYPE) if measured else item


def _read_one(
    clause: Clause,
    words: Sequence[EnglishWord],
    names: EnglishNames | None,
    unread: list[Item],
    previous: Predicate | None,
    drafts: Sequence[Draft],
) -> tuple[list[Draft], Predicate]:
    """Read a command. One without a verb takes that of the clause before; `it` is what that clause was about."""
    items = clause.items
    if previous is not None and not any(item.role in (EnglishRole.VERB, EnglishRole.PARTICLE) for item in items):
        verb = Item(EnglishRole.VERB, items[0].start, items[0].start, previous.text, meaning=previous.verb)
        items = [verb, *items] if previous.verb else items
    found, predicate = read_command(items, words, names, unread)
    last = drafts[-1] if drafts else None
    for draft in found:
        bare = draft.name is None and draft.type is None
        if last is not None and bare and draft.reference:
            draft.name, draft.type, draft.reference = last.name, last.type, False
            draft.rooms = draft.rooms or list(last.rooms)
            draft.quantifier, draft.excluded = last.quantifier, list(last.excluded)
        elif last is not None and bare and draft.rooms and not draft.excluded:
            draft.type = last.type
        elif last is not None and bare and not draft.rooms and draft.quantifier is None and not draft.others:
            draft.name, draft.type, draft.rooms = last.name, last.type, list(last.rooms)
            draft.reference = last.reference
    return found, predicate


def _add_rooms(drafts: Sequence[Draft], rooms: Sequence[str]) -> None:
    """Add the room of a reason: `the bedroom is too bright, dim the lights`."""
    for draft in drafts:
        if not draft.rooms and draft.name is None and rooms:
            draft.rooms = list(rooms)


def _read_unwanted(clause: Clause) -> Clause | None:
    """Return the command of `I do not want the fan on`: that it is turned off; None for other clauses."""
    items = [item for item in clause.items if item.role is not EnglishRole.NEGATION]
    wants = any(item.role is EnglishRole.VERB and item.text in _WANTING for item in items)
    states = [item for item in items if item.role is EnglishRole.PARTICLE]
    if len(items) == len(clause.items) or not wants or len(states) != 1 or states[0].meaning not in _OPPOSITES:
        return None
    ended = replace(states[0], meaning=_OPPOSITES[states[0].meaning])
    return replace(clause, items=[ended if item is states[0] else item for item in items])


def _is_kept(clause: Clause, clauses: int) -> bool:
    """Return True for a clause that says what to leave as it is: `leave the hall light on`, `do not touch the TV`."""
    roles = {item.role for item in clause.items}
    if EnglishRole.NEGATION in roles:
        return True
    if EnglishRole.KEEPER not in roles:
        return False
    values = any(item.value is not None and item.value.kind in _SET for item in clause.items)
    return clauses > 1 and not values


def _leave_out(drafts: list[Draft], kept: Exclusion) -> list[Draft]:
    """Leave out what another clause keeps, from the command that is about all, the others or a whole type."""
    if not kept.said or not (kept.things or kept.type or kept.reference):
        return drafts
    for draft in drafts:
        wide = draft.others or draft.quantifier is not None or draft.type is not None
        if wide and draft.name is None:
            draft.excluded += [thing for thing in kept.things if thing not in draft.excluded]
            draft.type = draft.type or kept.type
            draft.reference = draft.reference or kept.reference
            draft.spared = draft.spared or kept.reference
    return drafts
