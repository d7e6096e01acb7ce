"""Selection of the items of a context: by priority, then in the order of the search, as long as there is room."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.retriever.knowledge_search import ContextItem, KnowledgeHit, OmittedItem, OmittedItems
from skillbus.retriever.domain.context.duplicates import DuplicateFilter, compute_wording
from skillbus.retriever.domain.context.template import render_item
from skillbus.retriever.domain.context.token_count import TokenCounter

MIN_CUT_TOKENS: Final = 60
"""An item is cut only if at least this many tokens of its content fit."""
_ITEM_BYTES: Final = 2_000
"""Upper bound of an item's JSON in a reply without its content: title, scope, field names, numbers."""
_MISSES: Final = 8
"""After this many items that did not fit, only items that are likely to fit are still counted."""
_MARK_BYTES: Final = 90
"""Bytes of an item's mark, type and scope, about."""
_NAMED: Final = 100
"""Ids of omitted items that a reply names."""
_DESCRIBED: Final = 20
"""Omitted items that a reply describes."""
_LONG: Final = 400
"""Characters of a sentence from which on it is cut inside: tables, lists and data have no full stops."""
_CLOSING: Final = "\"'”’»)\\]）】」』》"
_SENTENCE: Final = re.compile(
    rf"[.!?…]+[{_CLOSING}]*(?=\s)(?!\s+[a-z])"  # not the dot of `e.g. this`
    rf"|[。！？；…]+[{_CLOSING}]*"
    r"|\s*[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*"
)
_CLAUSE: Final = re.compile(rf".{{1,{_LONG}}}(?<=[\s,;:，、；：。])|.{{1,{_LONG}}}", re.DOTALL)


def find_cuts(text: str) -> Iterator[int]:
    """Yield the ends of sentences and clauses in ascending order; the last one is the end of the text."""
    begin = 0
    ends = [found.end() for found in _SENTENCE.finditer(text)]
    if text and (not ends or ends[-1] < len(text)):
        ends.append(len(text))
    for end in ends:
        if end - begin > _LONG:
            yield from (clause.end() for clause in _CLAUSE.finditer(text, begin, end) if clause.end() < end)
        yield end
        begin = end


@dataclass(frozen=True, slots=True)
class PackedItems:
    """Items of a context, and the ids of everything that was found."""

    items: tuple[ContextItem, ...] = ()
    """In their order in the text."""
    alike: int = 0
    """Items left out because another item says the same."""
    ids: tuple[str, ...] = ()
    """Ids of all hits, most important first."""
    alike_ids: frozenset[str] = frozenset()
    """Ids of the items that were left out because another says the same."""

    @property
    def bytes(self) -> int:
        """Upper bound of the items' size in a reply."""
        return sum(count_json_bytes(item.content) + _ITEM_BYTES for item in self.items)

    @property
    def omitted(self) -> OmittedItems:
        """Hits that are not in the context."""
        placed = {item.id for item in self.items}
        ids = tuple(identity for identity in self.ids if identity not in placed)
        return OmittedItems(over_budget=len(ids) - self.alike, alike=self.alike, ids=ids[:_NAMED])


@dataclass(slots=True)
class _BytesPerToken:
    """Bytes per token of the texts counted so far. They save counting a text that is far too long.

    English and Chinese have about the same ratio.
    """

    most: float = 0.0
    bytes: int = 0
    tokens: int = 0
    misses: int = 0

    def record(self, size: int, tokens: int) -> None:
        """Note that `size` bytes had `tokens` tokens."""
        self.most = max(self.most, size / tokens)
        self.bytes += size
        self.tokens += tokens

    def may_fit(self, size: int, room: int) -> bool:
        """Return whether counting a text of `size` bytes is worthwhile for `room` tokens. The first one always is."""
        if not self.tokens:
            return True
        if self.misses < _MISSES:
            return size <= 1.25 * self.most * room
        return size <= 0.9 * self.bytes / self.tokens * room


@dataclass(slots=True)
class ContextPacker:
    """Packs hits into the room of one context."""

    counter: TokenCounter
    scope: str | None
    """The scope of the request."""
    tokens: int
    """Tokens that are still free."""
    _bytes: int = MESSAGE_BYTES
    """Bytes of the reply that are still free. Items past them count as over budget."""
    _ratio: _BytesPerToken = field(default_factory=_BytesPerToken)

    def pack_hits(self, hits: Sequence[KnowledgeHit]) -> PackedItems:
        """Take the hits in their order, which is that of `order_hits`.

        A hit that does not fit whole is cut if enough of it fits, else it is left out and smaller ones may follow.
        """
        items, alike, duplicates = list[ContextItem](), set[str](), DuplicateFilter(self.scope)
        for hit in hits:
            item = self._fit(hit)
            if item is None:
                continue
            size = count_json_bytes(render_item(item)) + count_json_bytes(item.content) + _ITEM_BYTES
            if size > self._bytes:
                continue
            wording = compute_wording(hit.item)
            if duplicates.has_similar(wording):
                alike.add(hit.item.id)
                continue
            duplicates.add_wording(wording)
            items.append(item)
            self.tokens -= item.tokens
            self._bytes -= size
        return PackedItems(tuple(items), len(alike), tuple(hit.item.id for hit in hits), frozenset(alike))

    def pack_beginning(self, hits: Sequence[KnowledgeHit]) -> PackedItems:
        """Take as much of the first hit as fits, cut at any character. There are hits, and none of them fits."""
        content = hits[0].item.content
        tried = {0: self.count_item(hits[0], "")}

        def fits(characters: int) -> bool:
            tried[characters] = self.count_item(hits[0], content[:characters].rstrip())
            return tried[characters].tokens <= self.tokens

        item = tried[find_largest_fit(len(content), fits)]
        return PackedItems((item,) if item.content else (), 0, tuple(hit.item.id for hit in hits))

    def _fit(self, hit: KnowledgeHit) -> ContextItem | None:
        """Return the hit, whole or cut; None if too little of it fits."""
        ratio = self._ratio
        bare = len(hit.item.title.encode()) + _MARK_BYTES
        size = bare + len(hit.item.content.encode())
        if not hit.content_cut and ratio.may_fit(size, self.tokens):
            whole = self.count_item(hit)
            ratio.record(size, whole.tokens)
            if whole.tokens <= self.tokens:
                return whole
        elif ratio.misses >= _MISSES or not ratio.may_fit(bare, self.tokens - MIN_CUT_TOKENS):
            return None
        item = self._cut(hit)
        ratio.misses += item is None
        return item

    def _cut(self, hit: KnowledgeHit) -> ContextItem | None:
        """Return the hit with as many whole sentences as fit; None if these are too few."""
        bare = self.count_item(hit, "").tokens
        room = self.tokens - bare
        if room < MIN_CUT_TOKENS:
            return None
        content = hit.item.content
        cuts, begin = list[int](), 0
        for end in find_cuts(content):
            room -= self.counter.count_part(content[begin:end])
            if room < 0:
                break
            cuts.append(end)
            begin = end
        if hit.content_cut and cuts and cuts[-1] == len(content):
            cuts.pop()  # the content was cut here by its length, not at a sentence

        tried = dict[int, ContextItem]()

        def fits(count: int) -> bool:
            tried[count] = self.count_item(hit, content[: cuts[count - 1]].rstrip())
            return tried[count].tokens <= self.tokens

        item = tried.get(find_largest_fit(len(cuts), fits))
        return item if item is not None and item.tokens - bare >= MIN_CUT_TOKENS else None

    def count_item(self, hit: KnowledgeHit, content: str | None = None) -> ContextItem:
        """Return the hit with its whole content or this beginning of it."""
        whole = hit.item.content
        content = whole if content is None else content
        item = ContextItem(
            id=hit.item.id,
            version=hit.item.version,
            project=hit.item.project,
            external_id=hit.item.external_id,
            type=hit.item.type,
            title=hit.item.title,
            scope=hit.item.scope,
            content=content,
            cut=hit.content_cut or len(content) < len(whole.rstrip()),
            score=hit.score,
            priority=hit.item.priority,
            tokens=0,
        )
        return item.model_copy(update={"tokens": self.counter.count_part(render_item(item))})


def describe_omitted(packed: PackedItems, hits: Sequence[KnowledgeHit]) -> OmittedItems:
    """Return what is left out, the first items with their reasons."""
    omitted, by_id = packed.omitted, {hit.item.id: hit for hit in hits}
    first = tuple(
        OmittedItem(
            id=identity,
            title=by_id[identity].item.title,
            reason="alike" if identity in packed.alike_ids else "over_budget",
            score=by_id[identity].score,
            priority=by_id[identity].item.priority,
        )
        for identity in omitted.ids[:_DESCRIBED]
    )
    return omitted.model_copy(update={"first": first})


def order_hits(hits: Sequence[KnowledgeHit]) -> list[KnowledgeHit]:
    """Sort by priority; hits of one priority keep the order of the search."""
    return sorted(hits, key=lambda hit: -hit.item.priority)


def find_largest_fit(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that fits, given that smaller numbers fit too; 0 if none does.

    It tries the largest first: usually all fit, or all but one.
    """
    low, high = 0, count + 1
    for probe in (count, count - 1):
        if probe > low and fits(probe):
            return probe
        high = max(min(high, probe), 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def count_json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())
