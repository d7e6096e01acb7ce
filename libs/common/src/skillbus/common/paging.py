"""Fit lists into messages of the bus: one budget, and functions that cut a page or batches to it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel

MESSAGE_BYTES: Final = 768 * 1024
"""Budget of the items in one request, reply or event.

nats-server refuses messages over 1 MiB unless it is configured otherwise. The rest is left for headers and the fields
around the items.
"""
JSON_CHARACTER_BYTES: Final = 6
"""Most bytes that one character takes in JSON: a control character is written as `\\u0001`."""

ItemT = TypeVar("ItemT")


def measure_json(message: BaseModel) -> int:
    """Return the size of a message as JSON, in bytes."""
    return len(message.model_dump_json().encode())


def cut_page(
    items: Sequence[ItemT], measure: Callable[[ItemT], int], *, max_size: int = MESSAGE_BYTES
) -> Sequence[ItemT]:
    """Return as many of the first items as fit into `max_size`, but at least one if there is any.

    `measure` returns the size of an item in the unit of `max_size`, which is bytes by default.
    """
    size = 0
    for count, item in enumerate(items):
        size += measure(item)
        if size > max_size and count:
            return items[:count]
    return items


def cut_batches(
    sizes: Iterable[int], *, max_size: int = MESSAGE_BYTES, max_items: int | None = None
) -> Iterator[slice]:
    """Yield consecutive slices of a list of items with these sizes. No slice is empty.

    A slice holds at most `max_items` items, of `max_size` together. An item that is larger than `max_size` gets its own
    slice.
    """
    start = end = total = 0
    for size in sizes:
        if end > start and (total + size > max_size or end - start == max_items):
            yield slice(start, end)
            start, total = end, 0
        total += size
        end += 1
    if end > start:
        yield slice(start, end)
