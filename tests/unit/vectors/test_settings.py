"""The key of a Qdrant server from a file, as Compose gives it."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from skillbus.vectors.opening import open_qdrant_server
from skillbus.vectors.server.grpc_store import GrpcVectorStore


@pytest.fixture(autouse=True)
def url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLBUS_QDRANT_URL", "http://127.0.0.1:9")


async def test_the_key_is_read_from_the_file_without_its_line_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    monkeypatch.setenv("SKILLBUS_QDRANT_API_KEY_FILE", str(tmp_path / "key"))
    async with open_qdrant_server() as store:
        assert isinstance(store, GrpcVectorStore)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
async def test_a_file_that_cannot_be_read_is_named_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    monkeypatch.setenv("SKILLBUS_QDRANT_API_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ValidationError, match="api_key_file"):
        async with open_qdrant_server():
            pass


async def test_a_url_that_names_no_server_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLBUS_QDRANT_URL", "http://one:6333, two:6333")
    with pytest.raises(ValidationError, match="'two:6333' is no URL of a Qdrant server"):
        async with open_qdrant_server():
            pass
