"""Learning over HTTP: forms of any cut, refusals, progress."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.knowledge import EXAMPLE_ID
from skillbus.contracts.learner.learning_jobs import (
    GET_LEARNING_JOB,
    START_LEARNING,
    LearningAdvanced,
    LearningInputKind,
    LearningJob,
    LearningProgress,
    LearningStarted,
    LearningStatus,
    StartLearning,
)
from skillbus.gateway.domain.learning.form_files import FormFiles
from skillbus.gateway.settings import GatewaySettings

from .fakes import KEY, World

JOB = LearningJob(
    id=EXAMPLE_ID,
    what=LearningInputKind.LOGS,
    source="default",
    digest="0" * 64,
    status=LearningStatus.RUNNING,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def make_world(**settings: object) -> World:
    world = World(key=KEY, settings=GatewaySettings.model_validate({"upload_patience_s": 0, **settings}))
    world.caller.on(START_LEARNING, lambda _: LearningStarted(job=JOB))
    return world


def get_asked(world: World) -> StartLearning:
    [(_, request)] = world.caller.asked
    assert isinstance(request, StartLearning)
    return request


async def test_the_files_of_a_form_are_objects_of_the_request() -> None:
    world = make_world()
    files = [("file", ("logs/a.log", b"one")), ("file", ("日志.log", b"")), ("x", ("c.gz", b"\r\n--\x00"))]
    params = {"source": "payments", "task": "t 1", "commit": "c1", "project": "team-a"}
    async with world.client() as client:
        answer = await client.post("/api/learn/tests", files=files, params=params, headers={"Skillbus-Actor": "lin"})
    assert (answer.status_code, answer.json()["job"]["id"]) == (202, EXAMPLE_ID)
    asked = get_asked(world)
    assert (asked.what, asked.source, asked.task, asked.project, asked.actor) == (
        LearningInputKind.TESTS,
        "payments",
        "t 1",
        "team-a",
        "lin",
    )
    assert asked.context.commit == "c1"
    assert {file.name: world.learning_files.held[str(file.content.object_name)] for file in asked.files} == {
        "logs/a.log": b"one",
        "日志.log": b"",
        "c.gz": b"\r\n--\x00",
    }
    assert all(str(file.content.object_name).startswith("team-a/") for file in asked.files)


async def test_a_body_that_is_one_file_has_its_name_in_the_query() -> None:
    world = make_world()
    async with world.client() as client:
        await client.post("/api/learn/logs", params={"name": "a.log"}, content=b"one")
        unnamed = await client.post("/api/learn/logs", content=b"one")
    assert [file.name for file in get_asked(world).files] == ["a.log"]
    assert (unnamed.status_code, unnamed.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"--b\r\nContent-Disposition: form-data; name=x; filename=a\r\n\r\nno end", "ends before its last boundary"),
        (b"--b\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n--b--\r\n", "is no file"),
        (b"no boundary", "cannot be read"),
        (b"--b--\r\n", "files"),
    ],
)
async def test_of_a_form_that_is_refused_nothing_is_kept(body: bytes, told: str) -> None:
    world = make_world()
    async with world.client() as client:
        answer = await client.post(
            "/api/learn/logs", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), answer.text
    assert told in answer.json()["detail"]
    assert (world.learning_files.held, world.caller.asked) == ({}, [])


async def test_of_files_that_the_learner_refuses_nothing_is_kept() -> None:
    world = make_world()
    world.caller.on(START_LEARNING, lambda _: RequestError(ErrorCode.STORAGE_FULL, "full"))
    async with world.client() as client:
        answer = await client.post("/api/learn/logs", files={"file": ("a.log", b"one")})
    assert (answer.status_code, len(world.learning_files.puts), world.learning_files.held) == (507, 1, {})


async def test_a_body_over_the_limit_is_refused_and_not_kept() -> None:
    world = make_world(learning_body_bytes=1_000)

    async def send() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 500

    async with world.client() as client:
        answer = await client.post("/api/learn/logs", params={"name": "a.log"}, content=send())
    assert (answer.status_code, world.learning_files.held, world.caller.asked) == (413, {}, [])


@pytest.mark.parametrize("cut", [1, 7, 1_000])
async def test_a_form_may_arrive_in_pieces_of_any_length(cut: int) -> None:
    content = b"a\r\n--bound\r\n-" * 5
    head = b'--boundary\r\nContent-Disposition: form-data; name="f"; filename="a b.log"\r\nX-Other: 1\r\n\r\n'
    body = head + content + b"\r\n" + head.replace(b"a b", b"c") + b"\r\n--boundary--\r\nepilogue"

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), cut):
            yield body[at : at + cut]

    form = FormFiles("multipart/form-data; boundary=boundary", pieces())
    found = {name: b"".join([piece async for piece in file]) async for name, file in form.iterate_files()}
    assert found == {"a b.log": content, "c.log": b""}


async def test_a_job_is_followed_to_its_end() -> None:
    world = make_world()
    states = [JOB, JOB, JOB.model_copy(update={"status": LearningStatus.DONE, "new_items": 2})]
    world.caller.on(GET_LEARNING_JOB, lambda _: states.pop(0))
    progress = LearningProgress(items=1)
    for status in (LearningStatus.RUNNING, LearningStatus.DONE):
        world.job_feed.told.put_nowait(LearningAdvanced(id=JOB.id, project="default", status=status, progress=progress))
    async with world.client() as client:
        answer = await client.get(f"/api/learn/jobs/{EXAMPLE_ID}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [part.split("\n") for part in answer.text.strip().split("\n\n")]
    assert [event[0] for event in events] == ["event: progress", "event: progress", "event: ended"]
    assert '"items":1' in events[1][1]
    assert '"new_items":2' in events[2][1]


async def test_a_job_that_does_not_exist_is_not_followed() -> None:
    world = make_world()
    world.caller.on(GET_LEARNING_JOB, lambda _: RequestError(ErrorCode.NOT_FOUND, "no"))
    async with world.client() as client:
        answer = await client.get(f"/api/learn/jobs/{EXAMPLE_ID}/events")
    assert answer.status_code == 404
