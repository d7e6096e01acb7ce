"""Gives each word of an English sentence its role.

Names and rooms of the home come first, the longest of all first. The rest is read from left to right; a word such as
`lock` or `light` is a verb only where a verb can stand.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from skillbus.queryir.english.lexicon.actions import (
    ATTRIBUTES,
    BASE_WORDS,
    MEDIA_WORDS,
    PARTICLES,
    SOURCES,
    STARTED,
    STEPS,
    VERBS,
)
from skillbus.queryir.english.lexicon.colours import MODES
from skillbus.queryir.english.lexicon.grammar_words import (
    EXCEPTIONS,
    FILLERS,
    FUNCTION_WORDS,
    GENERIC_ADJECTIVES,
    KEEPERS,
    NEGATIONS,
    OTHERS,
    QUANTIFIERS,
    QUESTION_FILLERS,
    QUESTIONS,
    REFERENCES,
    VOCATIVES,
)
from skillbus.queryir.english.lexicon.phrases import read_words
from skillbus.queryir.english.lexicon.places import EVERYWHERE, HERE, OWN_ROOM
from skillbus.queryir.english.lexicon.states import STATE_WORDS
from skillbus.queryir.english.lexicon.types import TYPE_WORDS
from skillbus.queryir.english.words.items import EnglishRole, Item
from skillbus.queryir.english.words.names import EnglishNames
from skillbus.queryir.english.words.scan import Scan, Span, get_text, make_item, match_length, match_type
from skillbus.queryir.english.words.spans import find_spans
from skillbus.queryir.english.words.tokens import EnglishWord
from skillbus.queryir.english.words.values import Value, ValueKind, match_value
from skillbus.queryir.english.words.verbs import find_verb, is_played, match_late_verb, match_verb

_SAYING: Final = frozenset({"mentioned", "talked", "said", "spoke", "asked", "meant", "named", "told", "referred"})
_DOING: Final = frozenset(
    {"turned", "switched", "put", "opened", "closed", "used", "started", "dimmed", "locked", "set"}
)
_BEFORE_NUMBERS: Final = frozenset({"to", "at", "by", "level", "speed", "channel", "hdmi", "only", "just"})
_SEPARATORS: Final = frozenset(["and", "or", "then", "plus"])
_AFTERWARDS: Final = (("after", "that"), ("afterwards",), ("then",), ("and", "then"), ("finally",), ("followed", "by"))
_PARTICIPLES: Final = read_words(
    """
    turned switched powered flipped going turning to be get go
    """
)
_DOCKING: Final = frozenset({"dock", "go_back", "send", "turn", "set"})


def label_words(
    words: Sequence[EnglishWord], names: EnglishNames | None, *, question: bool = False
) -> tuple[Item, ...]:
    """Return the items of a sentence, in its order. Each word is in one item.

    With `question` it is a question though it does not begin like one.
    """
    texts = [word.text for word in words]
    scan = Scan(words, texts, [word.singular for word in words], find_spans(words, texts, names), question=question)
    position = 0
    while position < len(words):
        word = words[position]
        if word.after_stop or word.after_comma:
            scan.opening = True
            if word.after_stop:
                scan.verb, scan.subject, scan.question = "", False, question
        length, item = _label(scan, position)
        scan.add(item)
        position += length
    return tuple(scan.items)


def _label(scan: Scan, position: int) -> Span:
    if (span := scan.spans.get(position)) is not None and not _is_verb_name(scan, span):
        return span.end - span.start, span
    for step in _STEPS_OPENING if scan.opening else _STEPS:
        if (found := step(scan, position)) is not None:
            length = next((one for one in range(1, found[0]) if position + one in scan.spans), found[0])
            if length == found[0] or found[1].role in (
                EnglishRole.VERB,
                EnglishRole.QUESTION,
                EnglishRole.FILLER,
                EnglishRole.EVERYWHERE,
            ):
                return found
    role = EnglishRole.MEDIA if is_played(scan, position) else EnglishRole.WORD
    return make_item(scan, role, position, 1)


def _is_verb_name(scan: Scan, span: Item) -> bool:
    """Return True for a name of one word that is the verb of its clause here: `open` of a lamp called Open."""
    if not scan.opening or span.end - span.start > 1 or span.role is not EnglishRole.NAME:
        return False
    return match_verb(scan, span.start) is not None and span.end < len(scan.words)


def _match_joint(scan: Scan, position: int) -> Span | None:
    for phrase in _AFTERWARDS:
        if tuple(scan.texts[position : position + len(phrase)]) == phrase:
            return make_item(scan, EnglishRole.THEN, position, len(phrase))
    text = scan.texts[position]
    if text == "and" and _follow(scan, position, "also"):
        return make_item(scan, EnglishRole.AND, position, 2)
    if text in _SEPARATORS:
        if match_length(EXCEPTIONS, scan.texts, position) or match_length(KEEPERS, scan.texts, position):
            return None
        return make_item(scan, EnglishRole.AND, position, 1)
    return None


def _follow(scan: Scan, position: int, text: str) -> bool:
    return position + 1 < len(scan.texts) and scan.texts[position + 1] == text


def _match_opening(scan: Scan, position: int) -> Span | None:
    """Match what only begins a clause: the longest of keepers, questions, negations, fillers and verbs."""
    found = [
        (match_length(KEEPERS, scan.texts, position), EnglishRole.KEEPER),
        (match_length(NEGATIONS, scan.texts, position), EnglishRole.NEGATION),
        (match_length(QUESTIONS, scan.texts, position), EnglishRole.QUESTION),
        (match_length(FILLERS, scan.texts, position), EnglishRole.FILLER),
    ]
    length, role = max(found, key=lambda one: one[0])
    verb = match_verb(scan, position)
    tone = match_value(scan.words, position)
    if tone is not None and tone[1].text and tone[0] > max(length, 1):
        return None
    if verb is not None and verb[0] > length:
        return verb
    return make_item(scan, role, position, length) if length else None


def _match_relative(scan: Scan, position: int) -> Span | None:
    """Match a relative clause of what was said or done before: `I just mentioned`, `that we turned on`."""
    start = position + (scan.texts[position] in ("that", "which"))
    last = scan.items[-1].role if scan.items else None
    if get_text(scan, start) not in ("i", "we", "you") or last not in (EnglishRole.REFERENCE, EnglishRole.TYPE):
        return None
    for index in range(start + 1, min(start + 5, len(scan.texts))):
        text, following = scan.texts[index], get_text(scan, index + 1)
        said = text in _SAYING or (get_text(scan, index - 1) == "was" and text in ("talking", "speaking"))
        if said or text in _DOING:
            more = following in ("about", "of") if said else following in ("on", "off", "up", "down")
            end = index + 1 + more
            end += get_text(scan, end) in ("before", "earlier", "last")
            return make_item(scan, EnglishRole.REFERENCE, position, end - position)
    return None


def _match_exception(scan: Scan, position: int) -> Span | None:
    length = match_length(EXCEPTIONS, scan.texts, position)
    keeper = match_length(KEEPERS, scan.texts, position)
    text = scan.texts[position]
    if keeper > max(length, 1) and position > 0:
        return make_item(scan, EnglishRole.KEEPER, position, keeper)
    if length == 0 and text == "but" and _resumes(scan, position + 1):
        return make_item(scan, EnglishRole.AND, position, 1)
    if length == 0 and text == "but":
        return make_item(scan, EnglishRole.EXCEPTION, position, 1)
    is_noun = position > 0 and scan.texts[position - 1] in ("the", "my", "our")  # at the bar
    alone = length == 1 and text in ("save", "bar", "minus") and (is_noun or not _has_said(scan))
    if length == 0 or alone or (text == "not" and scan.question):
        return None
    return make_item(scan, EnglishRole.EXCEPTION, position, length)


def _has_said(scan: Scan) -> bool:
    """Return True if the clause has said of what something may be left out."""
    return scan.subject or any(item.role is EnglishRole.QUANTIFIER for item in scan.items[-4:])


def _resumes(scan: Scan, position: int) -> bool:
    """Return True if a new statement follows `but`: `not the loft, but all other lights`."""
    if position >= len(scan.texts):
        return False
    others = match_length(OTHERS, scan.texts, position)
    return bool(others or match_length(QUANTIFIERS, scan.texts, position) or match_length(VERBS, scan.texts, position))


def _match_value(scan: Scan, position: int) -> Span | None:
    found = match_value(scan.words, position)
    if found is None:
        return _match_mode(scan, position)
    length, value = found
    after = position + length
    if value.kind in (ValueKind.COLOUR, ValueKind.KELVIN) and value.text:
        first = (
            not scan.verb
            or scan.verb not in ("set", "turn")
            or (not scan.subject and "to" not in scan.texts[:position])
        )
        next_type = after < len(scan.singulars) and (scan.singulars[after],) in TYPE_WORDS
        if (next_type and first) or (after in scan.spans and first):
            return None
    before = scan.texts[position - 1] if position else ""
    pronoun = scan.texts[position] == "one" and value.kind is ValueKind.NUMBER and before not in _BEFORE_NUMBERS
    if pronoun or (value.kind is ValueKind.SOME and scan.question):
        return None
    if before in ("to", "at", "of"):
        value = replace(value, to=True)
    return make_item(scan, EnglishRole.VALUE, position, length, value=value)


def _match_mode(scan: Scan, position: int) -> Span | None:
    """Match `cool` of `to cool`, `eco mode`, `on high`, `delicate mode`; `HDMI 2` of `to HDMI 2`."""
    if scan.question:
        return None
    before = scan.texts[position - 1] if position else ""
    if (
        scan.texts[position] in SOURCES
        and before in ("to", "on", "input", "source")
        and scan.verb in ("set", "turn", "")
    ):
        numbered = get_text(scan, position + 1).isdigit()
        source = " ".join(scan.texts[position : position + 1 + numbered])
        return make_item(scan, EnglishRole.VALUE, position, 1 + numbered, value=Value(ValueKind.CHANNEL, text=source))
    found = MODES.match(scan.texts, position)
    length, mode = found if found is not None else (1, scan.texts[position])
    after = position + length
    named = get_text(scan, after) == "mode"
    ends = after >= len(scan.texts) or scan.texts[after] in ("and", "then", "in", "on", "for", "at", "please", "speed")
    if found is not None and (named or (before in ("to", "in", "on", "into", "mode") and ends)):
        return make_item(scan, EnglishRole.VALUE, position, length + named, value=Value(ValueKind.MODE, text=mode))
    if named and scan.verb in ("turn_on", "turn_off", "activate", "start") and not scan.subject and found is None:
        return make_item(scan, EnglishRole.WORD, position, 2)
    known = scan.verb in ("set", "turn") or scan.subject
    if named and known and scan.texts[position] not in FUNCTION_WORDS and position not in scan.spans:
        return make_item(scan, EnglishRole.VALUE, position, 2, value=Value(ValueKind.MODE, text=mode[:100]))
    return None


def _match_place(scan: Scan, position: int) -> Span | None:
    """Match the whole home, and the room of the speaker, which says nothing."""
    if (length := match_length(EVERYWHERE, scan.texts, position)) > 0:
        return make_item(scan, EnglishRole.EVERYWHERE, position, length)
    if (length := match_length(HERE, scan.texts, position)) > 0 and scan.texts[position] != "there":
        if any(place in scan.spans for place in range(position, position + length)):
            return None  # in the Room 302
        return make_item(scan, EnglishRole.FILLER, position, length)
    if (length := match_length(OWN_ROOM, scan.texts, position)) > 0:
        return make_item(scan, EnglishRole.FILLER, position, length)
    return None


def _match_quantity(scan: Scan, position: int) -> Span | None:
    """Match quantifiers, references and others: the longest."""
    quantifier = QUANTIFIERS.match(scan.texts, position)
    others = match_length(OTHERS, scan.texts, position)
    reference = match_length(REFERENCES, scan.texts, position)
    best = max(quantifier[0] if quantifier else 0, others, reference)
    if best == 0 or best < match_length(FILLERS, scan.texts, position):  # all the way down
        return None
    text, after = scan.texts[position], position + best
    if quantifier is not None and best == quantifier[0] and _is_content(scan, after):
        return make_item(scan, EnglishRole.FUNCTION, position, best)  # play some music
    if reference == best:
        role = (
            EnglishRole.FUNCTION
            if text == "that" and get_text(scan, after) in ("is", "are", "has")
            else EnglishRole.REFERENCE
        )
        return make_item(scan, role, position, best)
    if others == best or quantifier is None:
        return make_item(scan, EnglishRole.OTHERS, position, best)
    if text in ("a", "an") and best == 1 and not _is_indefinite(scan, after):
        return make_item(scan, EnglishRole.FUNCTION, position, best)
    return make_item(scan, EnglishRole.QUANTIFIER, position, best, quantifier=quantifier[1])


def _is_content(scan: Scan, position: int) -> bool:
    """Return True for a word for what is played."""
    text = get_text(scan, position)
    return text in MEDIA_WORDS or bool(text and is_played(scan, position))


def _is_indefinite(scan: Scan, position: int) -> bool:
    """Return True if `a` stands for any one: `a light`, `a bedroom light`."""
    return any((noun,) in TYPE_WORDS for noun in scan.singulars[position : position + 4])


def _match_state(scan: Scan, position: int) -> Span | None:
    """Match the adjectives of a question."""
    if not scan.question:
        return None
    state = STATE_WORDS.match(scan.texts, position)
    return make_item(scan, EnglishRole.STATE, position, state[0], meaning=state[1]) if state is not None else None


def _match_property(scan: Scan, position: int) -> Span | None:
    """Match the particles, comparatives, bases and properties of a command."""
    if scan.question:
        return None
    text = scan.texts[position]
    base = match_length(BASE_WORDS, scan.texts, position) or int(scan.verb == "send" and text == "back")
    if scan.verb in _DOCKING and base:
        return make_item(scan, EnglishRole.BASE, position, base)
    particle = PARTICLES.get(text) or (STARTED.get(text) if scan.verb and find_verb(scan) == "get" else None)
    if particle is not None:
        role = EnglishRole.FUNCTION if _joins_room(scan, position) else EnglishRole.PARTICLE
        return make_item(scan, role, position, 1, meaning=particle)
    if text in STEPS:
        return make_item(scan, EnglishRole.STEP, position, 1, meaning=text)
    attribute = ATTRIBUTES.match(scan.texts, position)
    kind = TYPE_WORDS.match(scan.singulars, position)
    if attribute is not None and (kind is None or kind[0] <= attribute[0]):
        return make_item(scan, EnglishRole.ATTRIBUTE, position, attribute[0], meaning=attribute[1])
    return None


def _joins_room(scan: Scan, position: int) -> bool:
    """Return True for `on` before another room: `in the barn and on the porch`."""
    joins = bool(scan.items) and scan.items[-1].role is EnglishRole.AND
    after = position + 1 + (get_text(scan, position + 1) in ("the", "my", "our"))
    return joins and scan.texts[position] == "on" and after in scan.spans and scan.spans[after].role is EnglishRole.ROOM


def _match_noun(scan: Scan, position: int) -> Span | None:
    kind = match_type(scan, position)
    if kind is not None:
        return make_item(scan, EnglishRole.TYPE, position, kind[0], meaning=kind[1])
    named = get_text(scan, position + 1) in ("mode", "night", "time", "scene")
    if scan.texts[position] in MEDIA_WORDS and scan.verb != "activate" and not named:
        return make_item(scan, EnglishRole.MEDIA, position, 1)
    return None


def _match_filler(scan: Scan, position: int) -> Span | None:
    if (length := match_length(FILLERS, scan.texts, position)) > 0:
        return make_item(scan, EnglishRole.FILLER, position, length)
    text = scan.texts[position]
    if text in GENERIC_ADJECTIVES:
        return make_item(scan, EnglishRole.FILLER, position, 1)
    vocative = position == len(scan.texts) - 1 and text in VOCATIVES and scan.subject
    noun = (get_text(scan, position + 1),) in TYPE_WORDS
    if text == "back" and noun:
        return None
    idle = vocative or text in FUNCTION_WORDS or text in _PARTICIPLES or (scan.question and text in QUESTION_FILLERS)
    return make_item(scan, EnglishRole.FUNCTION, position, 1) if idle else None


_Step = Callable[[Scan, int], Span | None]
_STEPS: Final[tuple[_Step, ...]] = (
    _match_joint,
    _match_relative,
    _match_exception,
    match_late_verb,
    _match_value,
    _match_place,
    _match_quantity,
    _match_state,
    _match_property,
    _match_noun,
    _match_filler,
)
_STEPS_OPENING: Final[tuple[_Step, ...]] = (_match_joint, _match_opening, *_STEPS[1:])
