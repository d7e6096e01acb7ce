"""Query under construction."""

from dataclasses import dataclass, field
from typing import Final

from skillbus.contracts.retriever.query_ir import Quantifier, QueryArguments, QueryIR, Reference
from skillbus.queryir.actions import ActionCode, get_action_word
from skillbus.queryir.english.arguments import Arguments

_CODES: Final = {code.value: code for code in ActionCode}


@dataclass(slots=True)
class Draft:
    """Fields of a query, before it is complete."""

    code: str | None
    verb: str = ""
    """Verb as it was said, for actions without a usual word."""
    name: str | None = None
    type: str | None = None
    rooms: list[str] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    quantifier: Quantifier | None = None
    reference: bool = False
    others: bool = False
    spared: bool = False
    """True if the reference is what is left out."""
    arguments: Arguments = field(default_factory=dict)
    doubt: float = 0.0
    """Part of the confidence that is lost."""

    def build_query(self, doubt: float) -> QueryIR:
        """Return the query. `doubt` is what the sentence as a whole loses."""
        quantifier = self.quantifier
        if (self.excluded or self.spared) and quantifier is not Quantifier.COUNT:
            quantifier = Quantifier.EXCEPT
        return QueryIR(
            action=_find_word(self.code, self.verb)[:100],
            action_code=self.code,
            name_hint=self.name[:200] if self.name else None,
            type_hint=self.type,
            scope_include=tuple(room[:200] for room in self.rooms[:50]),
            scope_exclude=tuple(self.excluded[:50]),
            quantifier=quantifier,
            references=(Reference.LAST_MENTIONED,) if self.reference else (),
            arguments=QueryArguments.model_validate(self.arguments),
            confidence=max(0.0, min(1.0, round(1.0 - self.doubt - doubt, 2))),
        )


def _find_word(code: str | None, verb: str) -> str:
    """Return the usual word of an action; the verb that was said for one that has none."""
    known = _CODES.get(code or "")
    return get_action_word(known, "en") if known is not None else verb
