"""Parts of an English sentence, each with the role that its words have."""

from dataclasses import dataclass
from enum import StrEnum

from skillbus.contracts.retriever.query_ir import Quantifier
from skillbus.queryir.english.words.names import EnglishName
from skillbus.queryir.english.words.values import Value


class EnglishRole(StrEnum):
    """EnglishRole of some words in a sentence."""

    NAME = "name"
    ROOM = "room"
    TYPE = "type"
    QUANTIFIER = "quantifier"
    REFERENCE = "reference"
    OTHERS = "others"
    EVERYWHERE = "everywhere"
    VERB = "verb"
    PARTICLE = "particle"
    STEP = "step"
    STATE = "state"
    ATTRIBUTE = "attribute"
    VALUE = "value"
    BASE = "base"
    MEDIA = "media"
    EXCEPTION = "exception"
    KEEPER = "keeper"
    NEGATION = "negation"
    QUESTION = "question"
    AND = "and"
    THEN = "then"
    FUNCTION = "function"
    FILLER = "filler"
    WORD = "word"


@dataclass(frozen=True, slots=True)
class Item:
    """Words of a sentence that have one role."""

    role: EnglishRole
    start: int
    """Index of the first word."""
    end: int
    text: str
    """Words, in lower case."""
    meaning: str = ""
    """Meaning by the lexicon: type, verb, action of a particle, spelling of a room."""
    name: EnglishName | None = None
    value: Value | None = None
    quantifier: Quantifier | None = None
    comma: bool = False
    """True behind a comma."""
    stop: bool = False
    """True behind a full stop."""
    exact: bool = True
    """True for a name that is said as the home spells it."""
    plural: bool = False
