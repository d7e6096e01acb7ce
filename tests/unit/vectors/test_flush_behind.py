import asyncio

from skillbus.vectors import VectorStoreUnavailable
from skillbus.vectors.edge.store import FlushBehind


class Disk:
    """Counts flushes; the first `failures` of them fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.flushes = 0
        self.flushed = asyncio.Event()

    async def flush(self) -> None:
        self.flushes += 1
        if self.flushes <= self.failures:
            raise VectorStoreUnavailable("disk full")
        self.flushed.set()


async def test_a_burst_of_writes_is_flushed_once():
    disk = Disk()
    behind = FlushBehind(disk.flush, delay_s=0.02)
    async with behind.running():
        for _ in range(50):
            behind.mark_write()
            await asyncio.sleep(0)
        await asyncio.wait_for(disk.flushed.wait(), 5)
    assert disk.flushes == 1


async def test_a_flush_that_fails_is_logged_and_tried_again(caplog):
    disk = Disk(failures=2)
    behind = FlushBehind(disk.flush, delay_s=0.001)
    async with behind.running():
        behind.mark_write()
        await asyncio.wait_for(disk.flushed.wait(), 5)
    assert disk.flushes == 3
    assert [record.getMessage() for record in caplog.records] == ["vector_store_flush_failed"] * 2


async def test_nothing_written_is_never_flushed_and_the_task_ends_with_its_owner():
    disk = Disk()
    async with FlushBehind(disk.flush, delay_s=0).running():
        before = {task.get_name() for task in asyncio.all_tasks()}
        await asyncio.sleep(0)
    after = {task.get_name() for task in asyncio.all_tasks()}
    assert disk.flushes == 0
    assert before - after == {"vector-store-flush"}
