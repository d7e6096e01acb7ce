"""Address and key of the server that the client asks when it is given none."""

import json
import os
from pathlib import Path

import pytest

from skillbus.client import Skillbus
from skillbus.client.local_server import (
    DEFAULT_URL,
    KEY_VARIABLES,
    URL_VARIABLE,
    LocalServer,
    find_server,
    remember_data_directory,
)

LOCAL = LocalServer("http://127.0.0.1:9000", "owner")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of a server that runs here, as this process."""
    for name in (URL_VARIABLE, *KEY_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SKILLBUS_DATA", str(tmp_path))
    note = {"http_url": LOCAL.url, "api_key": LOCAL.key, "pid": os.getpid()}
    (tmp_path / "connection.json").write_text(json.dumps(note))
    return tmp_path


def test_the_server_on_this_machine_is_found_with_its_key(data: Path) -> None:
    assert find_server() == LOCAL
    with Skillbus() as client:
        assert client.url == LOCAL.url


def test_what_is_given_comes_first_then_the_environment(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_VARIABLE, "http://env.test")
    monkeypatch.setenv("SKILLBUS_API_KEY", "env")
    assert find_server("http://given.test", "given") == LocalServer("http://given.test", "given")
    assert find_server() == LocalServer("http://env.test", "env")


def test_the_key_of_this_machine_goes_to_no_other_server(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_server("http://other.test").key is None
    assert find_server("http://127.0.0.1:9001").key is None
    assert find_server("http://localhost:9000") == LOCAL


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_note_that_others_can_write_is_not_believed(data: Path, mode: int) -> None:
    (data / "connection.json").chmod(mode)
    assert find_server(key="mine") == LocalServer(DEFAULT_URL, "mine")


def test_a_note_of_another_user_or_behind_a_link_is_not_believed(data: Path) -> None:
    note = data / "connection.json"
    note.rename(data / "elsewhere.json")
    note.symlink_to(data / "elsewhere.json")
    assert find_server() == LocalServer(DEFAULT_URL, None)
    if os.geteuid() == 0:
        note.unlink()
        (data / "elsewhere.json").rename(note)
        os.chown(note, 65534, 65534)
        assert find_server() == LocalServer(DEFAULT_URL, None)


def test_without_a_server_the_default_address_is_asked(data: Path) -> None:
    (data / "connection.json").unlink()
    assert find_server() == LocalServer(DEFAULT_URL, None)


def test_in_another_folder_the_server_that_was_started_last_is_found(
    data: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.delenv("SKILLBUS_DATA")
    monkeypatch.setenv("XDG_STATE_HOME", str(elsewhere / "state"))
    monkeypatch.chdir(elsewhere)
    assert find_server() == LocalServer(DEFAULT_URL, None)
    remember_data_directory(data)
    assert find_server() == LOCAL
    assert find_server(data=elsewhere) == LocalServer(DEFAULT_URL, None)
    here = {"http_url": "http://127.0.0.1:9002", "pid": os.getpid()}
    (elsewhere / "data").mkdir()
    (elsewhere / "data/connection.json").write_text(json.dumps(here))
    assert find_server().url == "http://127.0.0.1:9002"


@pytest.mark.parametrize(("url", "key"), [("ftp://x", None), ("nonsense", None), ("http://x", "line\nbreak")])
def test_what_is_no_address_or_no_key_is_refused(data: Path, url: str, key: str | None) -> None:
    with pytest.raises(ValueError, match=r"address|printable"):
        Skillbus(url, key)
