"""What the indexer holds."""

from skillbus.contracts.indexer.skills import IndexerStatus
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.indexer.domain.catalogue.ports import Catalogue, ToolCatalogue
from skillbus.indexer.domain.errors import IndexUnavailableError
from skillbus.indexer.domain.index.index import Index


async def status_of(catalogue: Catalogue, tools: ToolCatalogue, index: Index[ToolEntry]) -> IndexerStatus:
    """Counts of the catalogue and the index; those of the index are absent when it cannot be reached."""
    records = await catalogue.all()
    waiting = sum(record.skill.enabled and not record.skill.indexed for record in records)
    described = await tools.count()
    try:
        counts = await index.counts()
    except IndexUnavailableError:
        return IndexerStatus(
            skills=len(records), tools=described, waiting=waiting, points=None, collection=None, model=None
        )
    return IndexerStatus(
        skills=len(records),
        tools=described,
        waiting=waiting,
        points=counts.points,
        collection=counts.collection,
        model=counts.model,
    )
