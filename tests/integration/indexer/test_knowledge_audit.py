"""An audit tells what of knowledge the index lacks, has otherwise, or has alone, and mends it."""

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditDifference, AuditIndex, IndexAudited
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.vectors import DENSE, VectorStore, models
from skillbus.vectors.datasets import KNOWLEDGE

from .conftest import Running
from .fake_embedder import DIMENSIONS
from .fake_learner import FakeLearner, item, named
from .knowledge_steps import versions
from .test_tools import put, tool


async def audit(bus: Bus, *, fix: bool = False, project: str | None = None) -> IndexAudited:
    return await bus.caller.call(AUDIT_INDEX, AuditIndex(fix=fix, project=project), timeout_s=10)


async def drifted(knowing: Running, learner: FakeLearner) -> None:
    """One item of each kind of difference, one that agrees, and one that does in another project."""
    items = [item("same"), item("stale"), item("ghost"), item("elsewhere", project="other")]
    await learner.write(*items)
    await learner.until_heard_of(*items)
    learner.has(item("stale", version=2), item("ghost", version=2, status=KnowledgeStatus.ARCHIVED), item("new"))
    unknown = models.PointStruct(
        id=named("unknown"),
        vector={DENSE: [0.5] * DIMENSIONS["aaaa"]},
        payload={"project": "other", "item_id": named("unknown"), "version": 1, "content_hash": "?"},
    )
    await knowing.store.upsert(KNOWLEDGE.alias, [unknown])
    await put(knowing.bus, tool("t"))


async def test_differences_of_knowledge_are_told_by_kind_beside_those_of_tools(
    knowing: Running, learner: FakeLearner
) -> None:
    await drifted(knowing, learner)
    assert await audit(knowing.bus) == IndexAudited(
        catalogued=1,
        inactive=0,
        indexed=1,
        knowledge=4,
        knowledge_indexed=5,
        differences=(
            AuditDifference(kind="knowledge_not_indexed", ids=(f"default/{named('new')}",), count=1),
            AuditDifference(kind="knowledge_indexed_otherwise", ids=(f"default/{named('stale')}",), count=1),
            AuditDifference(
                kind="knowledge_indexed_only", ids=(f"default/{named('ghost')}", f"other/{named('unknown')}"), count=2
            ),
        ),
    )


async def test_a_repair_makes_them_agree_and_the_learner_hears_of_it(knowing: Running, learner: FakeLearner) -> None:
    await drifted(knowing, learner)
    assert {(it.kind, it.count, it.fixed) for it in (await audit(knowing.bus, fix=True)).differences} == {
        ("knowledge_not_indexed", 1, 1),
        ("knowledge_indexed_otherwise", 1, 1),
        ("knowledge_indexed_only", 2, 2),
    }
    assert (await audit(knowing.bus)).differences == ()
    await learner.until_heard_of(item("stale", version=2), item("ghost", version=2), item("new"))
    assert set(await versions(knowing.store)) == {
        ("default", named("same")),
        ("default", named("stale")),
        ("default", named("new")),
        ("other", named("elsewhere")),
    }


async def move_point(store: VectorStore, old: str, new: str) -> None:
    """To another id, as it is."""
    (point,) = await store.retrieve(KNOWLEDGE.alias, [old], with_vectors=True)
    assert isinstance(point.vector, dict)
    await store.upsert(KNOWLEDGE.alias, [models.PointStruct(id=new, vector=point.vector, payload=point.payload)])
    await store.delete(KNOWLEDGE.alias, [old])


async def test_a_point_whose_id_is_not_that_of_its_item_goes_and_the_item_gets_its_own(
    knowing: Running, learner: FakeLearner
) -> None:
    """A search takes the id of a point for that of an item, and would not find this one."""
    items = [item("moved"), item("archived")]
    await learner.write(*items)
    await learner.until_heard_of(*items)
    for name in ("moved", "archived"):
        await move_point(knowing.store, named(name), named(f"not {name}"))
    learner.has(item("archived", version=2, status=KnowledgeStatus.ARCHIVED))
    astray = sorted(f"default/{named(name)}" for name in ("not moved", "not archived"))
    assert (await audit(knowing.bus, fix=True)).differences == (
        AuditDifference(kind="knowledge_not_indexed", ids=(f"default/{named('moved')}",), count=1, fixed=1),
        AuditDifference(kind="knowledge_indexed_only", ids=tuple(astray), count=2, fixed=2),
    )
    points, _ = await knowing.store.scroll(KNOWLEDGE.alias)
    assert [point.id for point in points] == [named("moved")]
    assert (await audit(knowing.bus)).differences == ()


async def test_an_audit_of_a_project_is_of_that_one_alone(knowing: Running, learner: FakeLearner) -> None:
    await drifted(knowing, learner)
    found = await audit(knowing.bus, project="other")
    assert (found.knowledge, found.knowledge_indexed) == (1, 2)
    assert [(it.kind, it.ids) for it in found.differences] == [
        ("knowledge_indexed_only", (f"other/{named('unknown')}",))
    ]


@pytest.mark.parametrize("fix", [False, True])
async def test_without_the_learner_tools_are_audited_and_the_reason_is_told(
    knowing: Running, learner: FakeLearner, fix: bool
) -> None:
    await drifted(knowing, learner)
    learner.down = True
    found = await audit(knowing.bus, fix=fix)
    assert (found.catalogued, found.knowledge, found.differences) == (1, None, ())
    assert found.knowledge_problem == "the learner is down"
