"""What is told of the outbox, and when a row leaves it."""

from collections.abc import Sequence

import pytest

from skillbus.common.background import PostponedError
from skillbus.contracts.learner.knowledge import KnowledgeRef
from skillbus.learner.domain.index.outbox import BATCH_ROWS, EVENT_REFS, OutboxRelay, OutboxRow, build_announcements


def written(sequence: int, item: str = "", version: int = 1, project: str = "default") -> OutboxRow:
    return OutboxRow(sequence, KnowledgeRef(project=project, id=item or f"item-{sequence}", version=version))


class FakeOutbox:
    """Rows in memory."""

    def __init__(self, count: int) -> None:
        self.rows = [written(number) for number in range(count)]

    async def list_oldest(self, limit: int) -> Sequence[OutboxRow]:
        return self.rows[:limit]

    async def remove_rows(self, rows: Sequence[OutboxRow]) -> None:
        self.rows = [row for row in self.rows if row not in rows]


class FakeStream:
    """Takes what has not been told before, as the stream does by the id of a message."""

    def __init__(self, takes: int = 1_000) -> None:
        self.told: dict[str, tuple[str, tuple[KnowledgeRef, ...]]] = {}
        self.takes = takes

    async def announce_change(self, project: str, refs: Sequence[KnowledgeRef], identity: str) -> None:
        if self.takes == 0:
            raise PostponedError("the stream is full")
        self.takes -= 1
        self.told.setdefault(identity, (project, tuple(refs)))

    def items(self) -> list[str]:
        return [ref.id for _, refs in self.told.values() for ref in refs]


def test_changes_are_told_by_project_in_their_order() -> None:
    rows = [written(1, "a"), written(2, "x", project="other"), written(3, "b")]
    told = build_announcements(rows)
    assert [(one.project, [ref.id for ref in one.refs]) for one in told] == [("default", ["a", "b"]), ("other", ["x"])]


def test_an_announcement_holds_so_many_items_and_no_more() -> None:
    told = build_announcements([written(number) for number in range(2 * EVENT_REFS + 1)])
    assert [len(one.refs) for one in told] == [EVENT_REFS, EVENT_REFS, 1]


def test_of_an_item_the_newest_version_is_told_once() -> None:
    (told,) = build_announcements([written(1, "a", 1), written(2, "a", 3), written(3, "a", 2)])
    assert [(ref.id, ref.version) for ref in told.refs] == [("a", 3)]


def test_the_same_rows_have_the_same_identity_and_others_another() -> None:
    (first,), (again,) = build_announcements([written(1, "a")]), build_announcements([written(1, "a")])
    assert first.identity == again.identity
    others = [
        [written(1, "b")],  # of a database that was made anew, whose numbers begin anew
        [written(2, "a")],
        [written(1, "a", 2)],
        [written(1, "a", project="other")],
        [written(1, "a"), written(2, "b")],
    ]
    assert len({build_announcements(rows)[0].identity for rows in others} | {first.identity}) == len(others) + 1


async def test_rows_leave_the_outbox_once_they_are_told() -> None:
    outbox, stream = FakeOutbox(3), FakeStream()
    assert not await OutboxRelay(outbox, stream).relay_changes()
    assert outbox.rows == []
    assert stream.items() == ["item-0", "item-1", "item-2"]


async def test_there_may_be_more_after_a_full_round() -> None:
    outbox, stream = FakeOutbox(BATCH_ROWS + 1), FakeStream()
    relay = OutboxRelay(outbox, stream)
    assert await relay.relay_changes()
    assert not await relay.relay_changes()
    assert len(stream.items()) == BATCH_ROWS + 1


async def test_what_the_stream_does_not_take_stays_and_is_told_once_in_the_end() -> None:
    outbox, stream = FakeOutbox(EVENT_REFS + 1), FakeStream(takes=1)
    relay = OutboxRelay(outbox, stream)
    with pytest.raises(PostponedError):
        await relay.relay_changes()
    assert len(outbox.rows) == EVENT_REFS + 1

    stream.takes = 1_000
    await relay.relay_changes()
    assert outbox.rows == []
    assert sorted(stream.items()) == sorted(f"item-{number}" for number in range(EVENT_REFS + 1))
