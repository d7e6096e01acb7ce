"""Items about the rules of an HTTP interface."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from skillbus.contracts.learner.learned import (
    EvidenceQuote,
    LearnedItem,
    LearnedKind,
    LearnedStatement,
    Polarity,
    TrafficRule,
)
from skillbus.contracts.scope import SCOPE_CHARACTERS, SEGMENTS
from skillbus.learning.confidence import get_confidence
from skillbus.learning.redaction import redact_text
from skillbus.learning.texts import shorten_text
from skillbus.learning.traffic.paths import ID, SLUG, PathSegments
from skillbus.learning.traffic.requirements import HEADER
from skillbus.learning.traffic.rules import RuleFinding

_TYPE: Final = "business_rule"
_QUOTES: Final = 4
_NAME_CHARACTERS: Final = 80
_MESSAGE_CHARACTERS: Final = 160
_TITLE_CHARACTERS: Final = 120


def write_rule(rule: RuleFinding) -> LearnedItem:
    """Return the item that states a rule, with quotes of refused calls."""
    first = rule.requirements[0]
    name = redact_text(first.name)[:_NAME_CHARACTERS]
    methods = ",".join(method for method in rule.methods if method.isalnum())[:100]
    scope = write_scope(rule.template, below=rule.below)
    path = scope or "/*"
    refused = sum(requirement.refusals for requirement in rule.requirements)
    message = redact_text(first.refused[0].text if rule.message else "")[:_MESSAGE_CHARACTERS]
    verb = f"checks {first.kind}" if message else f"requires {first.kind}"
    return LearnedItem(
        kind=LearnedKind.RULE,
        type=_TYPE,
        title=f"{methods} {shorten_text(path, 50)} {verb} {name}"[:_TITLE_CHARACTERS],
        content=_write_content(rule, name, f"{methods} {path}", message, refused),
        scope=scope,
        tags=("http", first.kind, name.lower()),
        statement=LearnedStatement(
            subject=shorten_text("@".join((path, *rule.hosts)), 290),
            predicate=_write_predicate(rule, name),
            value=methods,
            polarity=Polarity.MUST,
        ),
        rule=TrafficRule(
            method=methods,
            path=path,
            header=name if first.kind == HEADER else None,
            parameter=None if first.kind == HEADER else name,
        ),
        evidence=_choose_quotes(rule),
        confidence=get_confidence(refused),
        seen=refused,
    )


def write_scope(template: PathSegments, *, below: bool) -> str:
    """Return the scope of a template. Segments that a scope cannot hold, and secrets, become `*`."""
    parts = [_write_segment(segment) for segment in template[:SEGMENTS]]
    if below or len(template) > SEGMENTS:
        parts = [*parts[: SEGMENTS - 1], "*"]
    while len("/".join(parts)) >= SCOPE_CHARACTERS:
        parts = [*parts[:-2], "*"]
    scope = "/" + "/".join(parts)
    return "" if scope in {"/", "/*"} else scope


def _write_segment(segment: str) -> str:
    kept = segment.strip()
    plain = kept not in {"", ".", "..", ID, SLUG} and "*" not in kept and kept.isprintable()
    return kept if plain and redact_text(kept) == kept else "*"


def _write_predicate(rule: RuleFinding, name: str) -> str:
    kind = rule.requirements[0].kind
    if not rule.message:
        return f"requires_{kind}:{name.lower()}"
    return f"checks_{kind}:{name.lower()}:{blake2b(rule.message.encode(), digest_size=4).hexdigest()}"


def _write_content(rule: RuleFinding, name: str, endpoint: str, message: str, refused: int) -> str:
    kind = rule.requirements[0].kind
    statuses = sorted({group.status for requirement in rule.requirements for group in requirement.refused})
    status = "/".join(str(status) for status in statuses)
    succeeded = sum(requirement.succeeded for requirement in rule.requirements)
    named = sum(requirement.named for requirement in rule.requirements)
    if message:
        lines = [f"`{endpoint}` refuses a wrong value of the parameter `{name}` with status {status}: {message}"]
        lines.append(f"Seen in {refused} refused calls; {succeeded} calls of the same endpoints succeeded.")
    else:
        lines = [f"`{endpoint}` requires the {kind} `{name}`. Without it, calls are refused with status {status}."]
        lines.append(
            f"None of the calls without it succeeded: {refused} were refused, and {named} of these errors name it. "
            f"{succeeded} calls with it succeeded."
        )
        if not named:
            lines.append("No error names it: the rule rests on the counts alone.")
    if rule.hosts:
        lines.append("Only on host: " + ", ".join(redact_text(host) for host in rule.hosts[:10]) + ".")
    templates = sorted({write_scope(requirement.template, below=False) for requirement in rule.requirements})
    if rule.below:
        lines.append("Endpoints: " + ", ".join(f"`{template or '/'}`" for template in templates[:10]) + ".")
    return shorten_text("\n".join(lines), 1_900)


def _choose_quotes(rule: RuleFinding) -> tuple[EvidenceQuote, ...]:
    """Return the first quotes of each endpoint in turn, those that name the requirement first."""
    by_endpoint = [
        _sort_quotes(quote for group in requirement.refused for quote in group.quotes)
        for requirement in rule.requirements
    ]
    chosen: dict[tuple[int, str], EvidenceQuote] = {}
    for place in range(_QUOTES):
        for quotes in by_endpoint:
            if place < len(quotes) and len(chosen) < _QUOTES:
                chosen[quotes[place].line, quotes[place].quote] = quotes[place]
    return tuple(chosen.values())


def _sort_quotes(quotes: Iterable[EvidenceQuote]) -> list[EvidenceQuote]:
    return sorted(quotes, key=lambda quote: quote.line)
