"""A switch from one model to another, and what people and replicas may do meanwhile."""

from datetime import timedelta

import pytest

from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import SwitchPhase
from skillbus.indexer.domain.errors import IndexMissingError, NoDefaultModelError, RollBackRefusedError
from skillbus.indexer.domain.index.index import describe_collection
from skillbus.indexer.domain.index.ports import NO_MODEL, DefaultModel
from skillbus.indexer.domain.index.switch_decisions import Indexes, SwitchDecision, decide_switch
from skillbus.vectors import datasets as vectors

from .world import TIMING, A, B, C, World, collection, entry, key, skill


async def switched(to_b: World) -> World:
    await to_b.default_is(B)
    await to_b.driver().run_round()
    return to_b


async def test_an_index_goes_to_a_new_default_model_phase_by_phase() -> None:
    world = await switched(World())
    world.assert_switched_to(B)
    assert world.announcer.phases == [
        SwitchPhase.BUILDING,
        SwitchPhase.BACKFILLING,
        SwitchPhase.VERIFYING,
        SwitchPhase.KEPT,
    ]
    switch = world.record.switch
    assert switch.source is not None
    assert (switch.source.collection, switch.target.collection) == (collection(A), collection(B))
    assert (switch.done, switch.total) == (3, 3)
    assert switch.kept_until == world.time + timedelta(seconds=TIMING.keep_s)


async def test_the_same_default_begins_nothing() -> None:
    world = World()
    await world.default_is(A)
    await world.driver().run_round()
    assert world.switches.stored is None


async def test_an_index_without_any_tool_is_switched_too() -> None:
    (await switched(World(tools=0))).assert_switched_to(B)


async def test_the_old_collection_is_written_while_it_is_kept_and_then_removed() -> None:
    world = await switched(World())
    world.catalogue.has(skill("new"))
    await world.index.put_entries([entry(skill("new"))])
    assert world.holds_exactly(A)
    assert world.holds_exactly(B)
    world.later(TIMING.keep_s - 1)
    await world.driver().run_round()
    assert world.phase is SwitchPhase.KEPT
    world.later(1)
    await world.driver().run_round()
    assert world.phase is SwitchPhase.DONE
    assert set(world.collections.points) == {collection(B)}


async def test_what_is_searched_is_compared_with_the_catalogue_once_after_it_changed() -> None:
    world = await switched(World())
    driver = world.driver()
    await driver.run_round()
    await driver.run_round()
    assert world.moved == 1


async def test_a_rolled_back_index_is_the_old_one_and_not_switched_again_by_itself() -> None:
    world = await switched(World())
    state = await world.decisions.roll_back()
    assert state.live is not None
    assert (state.live.collection, world.phase) == (collection(A), SwitchPhase.ROLLED_BACK)
    assert world.holds_exactly(A)
    await world.decisions.follow_default_model()
    assert world.phase is SwitchPhase.ROLLED_BACK
    driver = world.driver()
    await driver.run_round()
    assert collection(B) in world.collections.points  # searches may still be on it
    world.later(10)
    await driver.run_round()
    assert set(world.collections.points) == {collection(A)}


async def test_after_a_rollback_a_switch_can_be_asked_for() -> None:
    world = await switched(World())
    await world.decisions.roll_back()
    world.catalogue.lacks("tool-0")
    await world.index.remove_entries([key("tool-0")])
    assert (await world.decisions.start_switch()).switch is not None
    await world.driver().run_round()
    world.assert_switched_to(B)


async def test_after_a_rollback_another_default_model_is_switched_to_and_then_the_first_may_be_again() -> None:
    world = await switched(World())
    await world.decisions.roll_back()
    await world.default_is(A)
    await world.default_is(B)
    await world.driver().run_round()
    world.assert_switched_to(B)


@pytest.mark.parametrize("phase", [SwitchPhase.BUILDING, SwitchPhase.BACKFILLING, SwitchPhase.VERIFYING])
async def test_a_running_switch_can_be_given_up(phase: SwitchPhase) -> None:
    world = World()
    await world.default_is(B)

    async def give_up(_: int) -> None:
        if world.phase is phase:
            await world.decisions.roll_back()

    world.calls.before = give_up
    driver = world.driver()
    await driver.run_round()
    assert world.phase is SwitchPhase.ROLLED_BACK
    world.later(10)
    await driver.run_round()
    assert world.collections.alias == collection(A)
    assert set(world.collections.points) == {collection(A)}


async def test_a_second_rollback_and_one_of_what_is_done_are_refused() -> None:
    world = World()
    with pytest.raises(RollBackRefusedError):
        await world.decisions.roll_back()
    await switched(world)
    world.later(TIMING.keep_s)
    await world.driver().run_round()
    with pytest.raises(RollBackRefusedError):
        await world.decisions.roll_back()
    await world.default_is(A)
    await world.decisions.roll_back()
    with pytest.raises(RollBackRefusedError):
        await world.decisions.roll_back()


async def test_an_index_that_is_not_there_can_be_neither_switched_nor_rolled_back() -> None:
    world = World()
    with pytest.raises(IndexMissingError):
        Indexes((world.decisions,)).find_index("nothing")
    world.models.model = None
    with pytest.raises(NoDefaultModelError):
        await world.decisions.start_switch()


async def test_a_new_default_in_the_middle_takes_the_place_of_the_one_before() -> None:
    world = World()
    await world.default_is(B)
    held = False

    async def hold(_: int) -> None:
        nonlocal held
        if not held and world.phase is SwitchPhase.BACKFILLING:
            held = True
            await world.default_is(C)

    world.calls.before = hold
    driver = world.driver()
    await driver.run_round()
    assert world.record.target.fingerprint == C.fingerprint
    await driver.run_round()
    world.assert_switched_to(C)
    world.later(10)
    await driver.run_round()
    assert set(world.collections.points) == {collection(A), collection(C)}


async def test_a_default_that_is_searched_already_ends_the_switch_that_runs() -> None:
    world = World()
    await world.default_is(B)
    await world.default_is(A)
    assert world.phase is SwitchPhase.ROLLED_BACK
    await world.default_is(B)
    await world.driver().run_round()
    world.assert_switched_to(B)


async def test_going_back_while_the_old_collection_is_kept_makes_no_vector_again() -> None:
    world = await switched(World())
    await world.default_is(A)
    written: list[str] = []
    world.collections.without_dense = {A.fingerprint}  # would be asked, and fail
    await world.driver().run_round()
    assert written == []
    world.assert_switched_to(A)


async def test_collections_that_nobody_knows_are_removed_but_not_what_is_searched() -> None:
    world = World()
    world.collections.points["tools-left-v1"] = {}
    await world.driver().run_round()
    assert set(world.collections.points) == {collection(A)}


async def test_nothing_is_removed_while_nothing_is_searched_yet() -> None:
    world = World()
    world.collections.alias = None
    await world.driver().run_round()
    assert set(world.collections.points) == {collection(A)}


async def test_a_store_that_lost_everything_is_filled_for_the_default_model_and_the_switch_ends() -> None:
    world = World()
    await world.default_is(B)
    world.collections.points.clear()
    world.collections.alias = None
    assert await world.index.open_live() == collection(B)
    await world.driver().run_round()
    world.assert_switched_to(B)
    await world.driver().run_round()
    assert world.phase is SwitchPhase.DONE


async def test_a_model_that_cannot_be_had_shows_as_the_problem_and_the_switch_waits_for_it() -> None:
    world = World()
    await world.default_is(B)
    world.collections.without_dense = {B.fingerprint}
    failures = 0

    async def come_back(_: int) -> None:
        nonlocal failures
        if world.record.switch.problem is not None:
            failures += 1
            if failures == 5:
                world.collections.without_dense = set()

    world.calls.before = come_back
    await world.driver().run_round()
    problems = [switch.problem for switch in world.announcer.switches]
    assert any(problem and B.fingerprint in problem for problem in problems)
    assert problems[-1] is None
    world.assert_switched_to(B)


async def test_the_first_index_is_of_the_default_model_and_filled() -> None:
    world = World()
    world.collections.points.clear()
    world.collections.alias = None
    assert await world.index.open_live() == collection(A)
    assert world.holds_exactly(A)


async def test_without_any_model_the_first_index_holds_words_alone_and_a_model_is_switched_to_later() -> None:
    world = World()
    world.collections.points.clear()
    world.collections.alias = None
    world.models.model = None
    assert await world.index.open_live() == f"tools-{NO_MODEL}-v1"
    await switched(world)
    world.assert_switched_to(B)


async def test_once_the_model_is_back_the_index_is_compared_so_that_what_was_written_without_it_gets_its_vector() -> (
    None
):
    world = World()
    world.catalogue.has(skill("one"), skill("two"))
    world.collections.without_dense = {A.fingerprint}
    await world.index.put_entries([entry(skill("one"))])
    assert world.moved == 0
    world.collections.without_dense = set()
    await world.index.put_entries([entry(skill("two"))])
    await world.index.put_entries([entry(skill("two"))])
    assert world.moved == 1


async def test_a_target_that_cannot_be_written_fails_no_install() -> None:
    world = World()
    await world.default_is(B)  # recorded, its collection is not made yet
    world.catalogue.has(skill("new"))
    await world.index.put_entries([entry(skill("new"))])
    assert world.holds_exactly(A)
    await world.driver().run_round()
    world.assert_switched_to(B)


@pytest.mark.parametrize(
    ("live", "default", "wanted"),
    [
        ("tools-aaaa-v1", A, SwitchDecision.NOTHING),
        ("tools-aaaa-v1", B, SwitchDecision.BEGIN),
        (f"tools-{NO_MODEL}-v1", A, SwitchDecision.BEGIN),
        ("tools-aaaa-v0", A, SwitchDecision.BEGIN),
    ],
)
def test_what_was_never_switched_goes_to_the_collection_of_any_other_default_or_schema(
    live: str, default: DefaultModel, wanted: SwitchDecision
) -> None:
    assert decide_switch(None, live, describe_collection(World().collections, default)) is wanted


async def test_an_index_of_an_older_schema_is_built_anew_for_the_same_model() -> None:
    world = World()
    world.collections.points["tools-aaaa-v0"] = world.collections.points.pop(collection(A))
    world.collections.alias = "tools-aaaa-v0"
    await world.default_is(A)
    await world.driver().run_round()
    world.assert_switched_to(A)


def test_the_name_for_no_model_is_that_of_the_vector_store() -> None:
    assert NO_MODEL == vectors.NO_MODEL
    assert vectors.parse_fingerprint(vectors.TOOLS.name_collection(NO_MODEL)) == NO_MODEL


async def test_what_is_not_there_is_not_switched_but_made_for_the_default_model() -> None:
    world = World()
    world.collections.points.clear()
    world.collections.alias = None
    await world.default_is(B)
    assert world.switches.stored is None
    assert await world.index.open_live() == collection(B)


async def test_an_index_that_cannot_be_had_does_not_keep_another_from_its_switch() -> None:
    world, away = World(), World()
    away.collections.points.clear()
    world.models.model = away.models.model = B
    away.switches.broken = True
    with pytest.raises(RequestError):
        await Indexes((away.decisions, world.decisions)).follow_default_model()
    assert world.record.target.fingerprint == B.fingerprint
