"""Which items go into a context, and how much of each: what is wanted most first, for as long as there is room."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Protocol

from skillbus.contracts.learner.knowledge import KnowledgeType
from skillbus.contracts.retriever.knowledge_search import ContextItem, KnowledgeHit, OmittedItems
from skillbus.retriever.domain.context.duplicates import Said, wording_of
from skillbus.retriever.domain.context.sentences import ends
from skillbus.retriever.domain.context.token_count import TokenCounter

LEAST_CUT: Final = 60
"""Tokens of a content from which on a part of it is worth its place."""
REPLY_BYTES: Final = 900_000
"""Of text and items as JSON, below the 1 MiB of a message: what is beyond is as far over as what is over the budget."""
_ITEM_BYTES: Final = 2_000
"""Of an item in a reply beside its content, at most: title and scope, names of fields, figures."""
_IN_VAIN: Final = 8
"""Items that are counted in vain, or cut in vain, before only those are that are likely to fit."""
_USUAL_BYTES: Final = 6.4
"""Of a token, at most; before anything was counted."""
_MARK_BYTES: Final = 60
"""Of an item beside title and content, about."""
_NAMED: Final = 100


class Blocks(Protocol):
    """How the parts of a context are written."""

    def heading(self, kind: KnowledgeType) -> str:
        """What stands above the items of a type."""
        ...

    def block(self, item: ContextItem) -> str:
        """An item, whole or cut."""
        ...


@dataclass(frozen=True, slots=True)
class Group:
    """The items of a type, best first."""

    type: KnowledgeType
    items: tuple[ContextItem, ...]


@dataclass(frozen=True, slots=True)
class Packed:
    """What was found, divided into what is in the context and what is not."""

    items: tuple[ContextItem, ...] = ()
    """Best first."""
    alike: tuple[int, ...] = ()
    """Positions in `ids` of those left out because they say what another one says."""
    ids: tuple[str, ...] = ()
    """Of all that was found, best first."""

    def first(self, count: int) -> "Packed":
        """The best of it; the rest is over the budget."""
        return Packed(self.items[:count], self.alike, self.ids)

    @property
    def bytes(self) -> int:
        """Of the items in a reply, at most."""
        return sum(size_of(item.content) + _ITEM_BYTES for item in self.items)

    @property
    def groups(self) -> tuple[Group, ...]:
        """By type; the type of the best item first."""
        kinds = list(dict.fromkeys(item.type for item in self.items))
        ordered = sorted(self.items, key=lambda item: kinds.index(item.type))
        return tuple(Group(kind, tuple(some)) for kind, some in groupby(ordered, key=lambda item: item.type))

    @property
    def omitted(self) -> OmittedItems:
        """What was left out."""
        placed = {item.id for item in self.items}
        ids = tuple(identity for identity in self.ids if identity not in placed)
        return OmittedItems(over_budget=len(ids) - len(self.alike), alike=len(self.alike), ids=ids[:_NAMED])


@dataclass(slots=True)
class _Gauge:
    """How many bytes a token has, by what was counted: what is too long for its room need not be counted to know it.

    Of English and of Chinese it is about the same.
    """

    most: float = _USUAL_BYTES
    bytes: int = 0
    tokens: int = 0
    in_vain: int = 0

    def saw(self, size: int, tokens: int) -> None:
        """So many bytes had so many tokens."""
        self.most = max(self.most if self.tokens else 0.0, size / tokens)
        self.bytes += size
        self.tokens += tokens

    def may_fit(self, size: int, room: int) -> bool:
        """Whether it is worth counting what has so many bytes."""
        if self.in_vain < _IN_VAIN or not self.tokens:
            return size <= 1.25 * self.most * room
        return size <= 0.9 * self.bytes / self.tokens * room


@dataclass(slots=True)
class _Table:
    """What is in so far, and the room that is left."""

    tokens: int
    bytes: int = REPLY_BYTES
    gauge: _Gauge = field(default_factory=_Gauge)
    items: list[ContextItem] = field(default_factory=list)
    alike: list[int] = field(default_factory=list)
    kinds: set[KnowledgeType] = field(default_factory=set)

    def place(self, item: ContextItem, heading: int, size: int) -> None:
        self.items.append(item)
        self.kinds.add(item.type)
        self.tokens -= heading + item.tokens
        self.bytes -= size


class Packer:
    """Packs contexts of one way to count and to write."""

    def __init__(self, counter: TokenCounter, blocks: Blocks, wanted: str | None) -> None:
        """`wanted` is the scope that is asked for."""
        self._counter = counter
        self._blocks = blocks
        self._wanted = wanted
        self._headings: dict[KnowledgeType, int] = {}

    def pack(self, hits: Sequence[KnowledgeHit], room: int) -> Packed:
        """What of the hits has room in so many tokens, by priority and then by score.

        One that does not fit whole is cut if enough of it fits, else it is left out and smaller ones may follow.
        """
        table, said, wanted = _Table(room), Said(self._wanted), ranked(hits)
        for position, hit in enumerate(wanted):
            kind = hit.item.type
            heading = 0 if kind in table.kinds else self._heading(kind)
            item = self._fitting(hit, table.tokens - heading, table.gauge)
            if item is None:
                continue
            size = size_of(self._blocks.block(item)) + size_of(item.content) + _ITEM_BYTES
            if size > table.bytes:
                continue
            wording = wording_of(hit.item)
            if said.tells(wording):
                table.alike.append(position)
            else:
                said.add(wording)
                table.place(item, heading, size)
        return Packed(tuple(table.items), tuple(table.alike), tuple(hit.item.id for hit in wanted))

    def _heading(self, kind: KnowledgeType) -> int:
        if kind not in self._headings:
            self._headings[kind] = self._counter.count_part(self._blocks.heading(kind))
        return self._headings[kind]

    def _fitting(self, hit: KnowledgeHit, room: int, gauge: _Gauge) -> ContextItem | None:
        """As much of a hit as fits into so many tokens; None when that is not worth its place."""
        bare = len(hit.item.title.encode()) + _MARK_BYTES
        size = bare + len(hit.item.content.encode())
        if not hit.content_cut and gauge.may_fit(size, room):
            whole = self._counted(hit, hit.item.content)
            gauge.saw(size, whole.tokens)
            if whole.tokens <= room:
                return whole
        elif gauge.in_vain >= _IN_VAIN or not gauge.may_fit(bare, room - LEAST_CUT):
            return None
        item = self._cut(hit, room)
        gauge.in_vain += item is None
        return item

    def _cut(self, hit: KnowledgeHit, room: int) -> ContextItem | None:
        bare = self._counted(hit, "").tokens
        if room - bare < LEAST_CUT:
            return None
        content = hit.item.content
        stops = self._stops(content, room - bare)
        if hit.content_cut and stops and stops[-1] == len(content):
            stops.pop()  # where it ends, no sentence does

        tried = dict[int, ContextItem]()

        def fits(count: int) -> bool:
            tried[count] = self._counted(hit, content[: stops[count - 1]].rstrip())
            return tried[count].tokens <= room

        item = tried.get(most(len(stops), fits))
        return item if item is not None and item.tokens - bare >= LEAST_CUT else None

    def _counted(self, hit: KnowledgeHit, content: str) -> ContextItem:
        item = _item_of(hit, content)
        return item.model_copy(update={"tokens": self._counter.count_part(self._blocks.block(item))})

    def _stops(self, content: str, room: int) -> list[int]:
        """Where it may be cut, up to about so many tokens."""
        stops, begin = list[int](), 0
        for end in ends(content):
            room -= self._counter.count_part(content[begin:end])
            if room < 0:
                break
            stops.append(end)
            begin = end
        return stops


def ranked(hits: Sequence[KnowledgeHit]) -> list[KnowledgeHit]:
    """By priority, then by score; the same hits in the same order, however they came."""
    return sorted(hits, key=lambda hit: (-hit.item.priority, -hit.score, hit.item.project, hit.item.id))


def most(count: int, fits: Callable[[int], bool]) -> int:
    """How many of `count` fit, if fewer always do; 0 when not even one does. What is given does fit, or is 0.

    The last is tried first: as a rule all fit, or all but one.
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


def _item_of(hit: KnowledgeHit, content: str) -> ContextItem:
    """An item with so much of its content."""
    item = hit.item
    return ContextItem(
        id=item.id,
        version=item.version,
        project=item.project,
        external_id=item.external_id,
        type=item.type,
        title=item.title,
        scope=item.scope,
        content=content,
        cut=hit.content_cut or len(content) < len(item.content.rstrip()),
        score=hit.score,
        priority=item.priority,
        tokens=0,
    )


def size_of(text: str) -> int:
    """Bytes of a text as JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode())
