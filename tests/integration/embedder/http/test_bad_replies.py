"""Providers that answer something else than vectors: each is a clear error, and the next request is served again."""

import gzip
import json
from collections.abc import Callable, MutableMapping

import pytest

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.embedder.domain.errors import ModelUnavailableError, TextsRefusedError

from .conftest import OpenModel, a_model
from .fake_provider import (
    DIM,
    Behaviour,
    FakeProvider,
    Reply,
    as_json,
    ollama_reply,
    openai_error,
    openai_reply,
    trickle,
    vector_of,
)

TEXTS = ["a", "b"]
A, B = (vector_of(text) for text in TEXTS)
MIB = 1 << 20  # more than two vectors of 8 dimensions take


def raw(body: str, **headers: str) -> Reply:
    return Reply(200, body.encode(), {"content-type": "application/json", **headers})


def openai_with(number: str) -> Reply:
    """Two vectors, of which the first holds something else in the place of a number."""
    bad, good = (", ".join([first] + ["0.5"] * (DIM - 1)) for first in (number, "0.5"))
    return raw(f'{{"data": [{{"index": 0, "embedding": [{bad}]}}, {{"index": 1, "embedding": [{good}]}}]}}')


BAD_REPLIES: dict[str, tuple[Behaviour, str]] = {
    "fewer vectors": (openai_reply([A]), "2 texts with 1 vectors"),
    "more vectors": (openai_reply([A, B, A]), "2 texts with 3 vectors"),
    "no vectors": (openai_reply([]), "2 texts with 0 vectors"),
    "an index twice": (openai_reply([A, B], [0, 0]), "indices"),
    "an index too high": (openai_reply([A, B], [1, 2]), "indices"),
    "an index below zero": (openai_reply([A, B], [-1, 0]), "indices"),
    "no index": (as_json({"data": [{"embedding": A}, {"embedding": B}]}), "index"),
    "other dimensions": (openai_reply([A[:4], B[:4]]), "4 dimensions; the model is registered with 8"),
    "vectors of several widths": (openai_reply([A, B[:4]]), "4, 8 dimensions"),
    "vectors of no numbers": (openai_reply([[], []]), "0 dimensions"),
    "zeros": (openai_reply([A, [0.0] * DIM]), "zero or not finite"),
    "NaN": (openai_with("NaN"), "finite number"),
    "Infinity": (openai_with("-Infinity"), "finite number"),
    "a number past float64": (openai_with("1e999"), "finite number"),
    "null": (openai_with("null"), "something else than vectors"),
    "a number in quotes": (openai_with('"0.5"'), "something else than vectors"),
    "true": (openai_with("true"), "something else than vectors"),
    "base64": (as_json({"data": [{"index": 0, "embedding": "AAAA"}] * 2}), "something else than vectors"),
    "HTML": (Reply(200, b"<html><body>Welcome</body></html>", {"content-type": "text/html"}), "Invalid JSON"),
    "nothing": (Reply(200), "Invalid JSON"),
    "no content": (Reply(204), "Invalid JSON"),
    "half a document": (raw('{"data": [{"index": 0, "embedding": [0.1, '), "Invalid JSON"),
    "another document": (as_json({"error": "but with status 200"}), "data: is missing"),
    "a list": (as_json([A, B]), "something else than vectors"),
    "deep nesting": (raw("[" * 100_000), "something else than vectors"),
    "a negative count of tokens": (
        as_json({"data": [{"index": 0, "embedding": A}, {"index": 1, "embedding": B}], "usage": {"prompt_tokens": -1}}),
        "usage.prompt_tokens",
    ),
    "a count of tokens that no float holds": (
        raw(json.dumps({"data": [{"index": 0, "embedding": A}], "usage": {"prompt_tokens": 10**400}})),
        "usage.prompt_tokens",
    ),
    "more than is read": (raw(" " * MIB), "more than the 257 KiB"),
    "a small body that unpacks to a large one": (
        Reply(200, gzip.compress(b" " * (40 * MIB)), {"content-encoding": "gzip"}),
        "more than the 257 KiB",
    ),
    "a smaller one that unpacks twice": (
        Reply(200, gzip.compress(gzip.compress(b" " * (40 * MIB))), {"content-encoding": "gzip, gzip"}),
        "decompressed",
    ),
    "an encoding that nobody asked for": (raw("{}", **{"content-encoding": "br"}), "decompressed"),
    "a body that does not unpack": (raw("not gzip", **{"content-encoding": "gzip"}), "decompressed"),
}


@pytest.mark.parametrize("case", BAD_REPLIES)
async def test_a_reply_that_holds_no_vectors_is_the_providers_failure_and_not_tried_again(
    provider: FakeProvider, opened: OpenModel, case: str
) -> None:
    behaviour, reason = BAD_REPLIES[case]
    provider.script = [behaviour]
    model = await opened()
    with pytest.raises(ModelUnavailableError, match=reason):
        await model.embed(TEXTS, TextRole.DOCUMENT)
    assert len(provider.seen) == 1
    assert (await model.embed(TEXTS, TextRole.DOCUMENT)).rows.shape == (2, DIM)


async def test_the_same_reply_with_a_number_in_its_place_is_good(provider: FakeProvider, opened: OpenModel) -> None:
    provider.script = [openai_with("-1")]
    assert (await (await opened()).embed(TEXTS, TextRole.DOCUMENT)).rows[0, 0] < 0


async def test_a_compressed_reply_is_read(provider: FakeProvider, opened: OpenModel) -> None:
    body = openai_reply([A, B]).body
    provider.script = [Reply(200, gzip.compress(body), {"content-encoding": "gzip"})]
    assert (await (await opened()).embed(TEXTS, TextRole.DOCUMENT)).rows.shape == (2, DIM)
    assert provider.seen[0].headers["accept-encoding"] == "gzip"


async def test_the_longest_numbers_of_many_wide_vectors_are_read(provider: FakeProvider, opened: OpenModel) -> None:
    texts = [f"text {number}" for number in range(64)]
    vectors = [[-0.00012345678901234567] * 4096 for _ in texts]
    document = {"data": [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]}
    provider.script = [Reply(200, json.dumps(document, indent=2).replace("        ", " ").encode())]
    model = await opened(model=a_model(dimensions=4096))
    assert (await model.embed(texts, TextRole.DOCUMENT)).rows.shape == (64, 4096)


async def test_a_rejected_key_is_told_in_whatever_encoding(provider: FakeProvider, opened: OpenModel) -> None:
    provider.script = [Reply(401, b"\x8b", {"content-encoding": "br"})]
    with pytest.raises(ModelUnavailableError, match="env:ACME_KEY"):
        await (await opened()).embed(TEXTS, TextRole.DOCUMENT)


OLLAMA_REPLIES: dict[str, tuple[Behaviour, str]] = {
    "fewer vectors": (ollama_reply([A]), "2 texts with 1 vectors"),
    "other dimensions": (ollama_reply([A[:4], B[:4]]), "registered with 8"),
    "zeros": (ollama_reply([A, [0.0] * DIM]), "zero or not finite"),
    "the format of another endpoint": (as_json({"embedding": A}), "embeddings: is missing"),
}


@pytest.mark.parametrize("case", OLLAMA_REPLIES)
async def test_so_it_is_with_ollama(provider: FakeProvider, opened: OpenModel, case: str) -> None:
    behaviour, reason = OLLAMA_REPLIES[case]
    provider.script = [behaviour]
    model = await opened(ProviderKind.OLLAMA)
    with pytest.raises(ModelUnavailableError, match=reason):
        await model.embed(TEXTS, TextRole.DOCUMENT)


async def test_without_registered_dimensions_all_vectors_still_have_one_width(
    provider: FakeProvider, opened: OpenModel
) -> None:
    provider.script = [openai_reply([A, B[:4]])]
    with pytest.raises(ModelUnavailableError, match="4, 8 dimensions"):
        await (await opened(model=a_model(dimensions=None))).embed(TEXTS, TextRole.DOCUMENT)


async def test_a_slow_trickle_ends_with_the_timeout(provider: FakeProvider, opened: OpenModel) -> None:
    provider.script = [trickle]
    model = await opened(timeout_s=0.3)
    with pytest.raises(ModelUnavailableError, match=r"did not answer in full within 0\.3 s"):
        await model.embed(TEXTS, TextRole.DOCUMENT)
    assert (await model.embed(TEXTS, TextRole.DOCUMENT)).rows.shape == (2, DIM)


async def test_a_trickle_of_complaint_ends_with_the_timeout_too(provider: FakeProvider, opened: OpenModel) -> None:
    async def complaining(seen: object, receive: object, send: Callable[..., object]) -> None:
        def with_500(message: dict[str, object]) -> object:
            return send({**message, "status": 500} if "status" in message else message)

        await trickle(seen, receive, with_500)  # type: ignore[arg-type]  # ASGI's messages are many types

    provider.script = [complaining]
    with pytest.raises(ModelUnavailableError, match="did not answer in full"):
        await (await opened(timeout_s=0.3)).embed(TEXTS, TextRole.DOCUMENT)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_not_told(provider: FakeProvider, opened: OpenModel, status: int) -> None:
    provider.script = [Reply(status, b"", {"location": "http://evil.example/steal?token=canary"})]
    with pytest.raises(ModelUnavailableError, match="redirects") as caught:
        await (await opened()).embed(TEXTS, TextRole.DOCUMENT)
    assert "evil" not in str(caught.value)
    assert len(provider.seen) == 1


@pytest.mark.parametrize("location", ["/elsewhere", "", "http://[", "http://" + "a" * 5000])
async def test_a_redirect_that_leads_nowhere_is_told_briefly(
    provider: FakeProvider, opened: OpenModel, location: str
) -> None:
    provider.script = [Reply(302, b"", {"location": location})]
    with pytest.raises(ModelUnavailableError, match="redirects") as caught:
        await (await opened()).embed(TEXTS, TextRole.DOCUMENT)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize(
    "complaint",
    [
        openai_error(400, "This model's maximum context length is 8192 tokens", param="input"),
        openai_error(400, "bad input"),
        as_json({"error": "the input length exceeds the context length"}),
        as_json({"detail": [{"msg": "too long"}]}),
        Reply(400, b"<html>"),
    ],
)
async def test_refused_texts_are_told_from_a_provider_that_failed(
    provider: FakeProvider, opened: OpenModel, status: int, complaint: Reply
) -> None:
    provider.script = [Reply(status, complaint.body, complaint.headers)]
    with pytest.raises(TextsRefusedError, match=f"refused the input .{status}"):
        await (await opened()).embed(TEXTS, TextRole.DOCUMENT)
    assert len(provider.seen) == 1


@pytest.mark.parametrize(
    "complaint",
    [
        openai_error(404, "The model `m` does not exist", code="model_not_found"),
        openai_error(400, "no such model", code="model_not_found"),
        openai_error(400, "does not support it", param="dimensions"),
        as_json({"error": 'model "m" not found, try pulling it first'}, 404),
        as_json({"error": {"code": "Arrearage", "message": "Access denied: account in arrears."}}, 400),
        Reply(404, b"<html>nginx</html>"),
        Reply(405),
    ],
)
async def test_what_no_text_could_change_is_not_blamed_on_the_texts(
    provider: FakeProvider, opened: OpenModel, complaint: Reply
) -> None:
    provider.script = [complaint]
    with pytest.raises(ModelUnavailableError):
        await (await opened()).embed(TEXTS, TextRole.DOCUMENT)
    assert len(provider.seen) == 1


async def test_ollamas_nan_is_blamed_on_the_texts(provider: FakeProvider, opened: OpenModel) -> None:
    """It fails a whole batch for one text with status 500 (ollama/ollama#9639)."""
    provider.script = [as_json({"error": "failed to encode response: json: unsupported value: NaN"}, 500)]
    with pytest.raises(TextsRefusedError):
        await (await opened(ProviderKind.OLLAMA)).embed(TEXTS, TextRole.DOCUMENT)
    assert len(provider.seen) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_a_rejected_key_is_named_by_its_reference(provider: FakeProvider, opened: OpenModel, status: int) -> None:
    provider.script = [openai_error(status, "Incorrect API key provided: sk-can*****5b4a", code="invalid_api_key")]
    with pytest.raises(ModelUnavailableError, match="env:ACME_KEY") as caught:
        await (await opened()).embed(TEXTS, TextRole.DOCUMENT)
    assert "sk-can" not in str(caught.value)
    assert len(provider.seen) == 1


async def test_a_key_that_is_wanted_and_not_registered_is_told(provider: FakeProvider, opened: OpenModel) -> None:
    provider.script = [Reply(401)]
    with pytest.raises(ModelUnavailableError, match="set its api_key"):
        await (await opened(api_key=None)).embed(TEXTS, TextRole.DOCUMENT)


FOREIGN = "root:x:0:0 and the inner name db-7.internal"


@pytest.mark.parametrize("status", [300, 302, 400, 401, 403, 404, 405, 408, 413, 418, 422, 429, 500, 502, 503, 599])
@pytest.mark.parametrize(
    "form",
    [
        lambda status: openai_error(status, FOREIGN, code=FOREIGN, param=FOREIGN),
        lambda status: as_json({"error": FOREIGN}, status),
        lambda status: as_json({"detail": FOREIGN, "type": FOREIGN, "param": FOREIGN}, status),
        lambda status: Reply(status, FOREIGN.encode(), {"location": "http://db-7.internal/", "retry-after": FOREIGN}),
    ],
)
async def test_nothing_of_an_error_answer_is_told_to_callers(
    provider: FakeProvider,
    opened: OpenModel,
    logged: list[MutableMapping[str, object]],
    status: int,
    form: Callable[[int], Reply],
) -> None:
    """An answer of an internal service could be read through it."""
    provider.always = form(status)
    with pytest.raises((ModelUnavailableError, TextsRefusedError), match=str(status)) as caught:
        await (await opened()).embed(TEXTS, TextRole.DOCUMENT)
    told = str(caught.value) + repr([line for line in logged if line["log_level"] != "debug"])
    assert "root" not in told
    assert "db-7" not in told
