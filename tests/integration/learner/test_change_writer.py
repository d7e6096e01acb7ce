"""A change of another version than the one it was decided on is never written."""

from functools import partial

import pytest

from skillbus.learner.adapters.sql.change_writer import write_changes
from skillbus.learner.domain.errors import ConcurrentChangeError
from skillbus.learner.domain.item.lifecycle import Attribution, ItemChange, update_item

from .knowledge import BEGIN, Knowledge

ANN = Attribution("ann", BEGIN)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_change_of_an_older_version_overwrites_nothing(knowledge: Knowledge, count: int) -> None:
    items = [await knowledge.create(title=f"title {number}") for number in range(count)]
    changes = [change for item in items if (change := update_item(item, {"title": "first"}, ANN)) is not None]
    await knowledge.database.write(partial(write_changes, changes=changes))
    # Decided on version 1, and two versions ahead: neither the row nor the version that it makes is the stored one.
    late = [ItemChange(it.item, it.item.model_copy(update={"version": 4, "title": "late"}), it.kind) for it in changes]
    with pytest.raises(ConcurrentChangeError):
        await knowledge.database.write(partial(write_changes, changes=late))
    assert {(await knowledge.base.reader.get_current("default", item.id)).title for item in items} == {"first"}
