"""Keys by reference: what is read, what is refused, and that no refusal tells the key."""

import os
from pathlib import Path

import pytest

from skillbus.common.secrets import Secrets, SecretUnreadableError

KEY = "sk-canary-0123456789"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "openai").write_text(f"{KEY}\n")
    (tmp_path / "outside").write_text(KEY)
    return folder


def resolved(secrets: Secrets, reference: str) -> str:
    return secrets.resolve(reference).get_secret_value()


def test_a_variable_is_read_anew_each_time() -> None:
    environment = {"OPENAI_API_KEY": KEY}
    secrets = Secrets(environment)
    assert resolved(secrets, "env:OPENAI_API_KEY") == KEY
    environment["OPENAI_API_KEY"] = "sk-next"
    assert resolved(secrets, "env:OPENAI_API_KEY") == "sk-next"


def test_a_file_is_read_anew_each_time_without_the_white_space_around_it(folder: Path) -> None:
    secrets = Secrets({}, folder)
    assert resolved(secrets, "file:openai") == KEY
    (folder / "openai").write_text("  sk-next\r\n")
    assert resolved(secrets, "file:openai") == "sk-next"


def test_a_file_may_be_named_by_its_whole_path(folder: Path) -> None:
    assert resolved(Secrets({}, folder), f"file:{folder}/openai") == KEY


def test_links_inside_the_folder_are_followed_as_kubernetes_makes_them(folder: Path) -> None:
    (folder / "..2026").mkdir()
    (folder / "..2026" / "key").write_text(KEY)
    (folder / "..data").symlink_to("..2026")
    (folder / "key").symlink_to("..data/key")
    assert resolved(Secrets({}, folder), "file:key") == KEY


@pytest.mark.parametrize("place", ["../outside", "sub/../../outside", "/etc/hostname", "..", "", ".", "a\0b"])
def test_nothing_outside_the_folder_is_read(folder: Path, place: str) -> None:
    with pytest.raises(SecretUnreadableError):
        Secrets({}, folder).resolve(f"file:{place}")


def test_a_link_that_leads_out_of_the_folder_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "there").symlink_to(folder.parent)
    for place in ("link", "there/outside"):
        with pytest.raises(SecretUnreadableError, match="only files below"):
            Secrets({}, folder).resolve(f"file:{place}")


def test_a_link_to_itself_is_refused(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    with pytest.raises(SecretUnreadableError):
        Secrets({}, folder).resolve("file:loop")


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(SecretUnreadableError, match="not a plain file"):
        Secrets({}, folder).resolve("file:pipe")


def test_a_file_of_more_than_64_kib_is_refused(folder: Path) -> None:
    (folder / "large").write_text("k" * 65_537)
    (folder / "just").write_text("k" * 65_536)
    with pytest.raises(SecretUnreadableError, match="at most 65536 bytes"):
        Secrets({}, folder).resolve("file:large")
    assert len(resolved(Secrets({}, folder), "file:just")) == 65_536


@pytest.mark.parametrize("reference", ["env:MISSING", "file:missing", "env:", "env:NO-NAME", "env:A=B"])
def test_what_is_not_there_is_named_by_its_reference(folder: Path, reference: str) -> None:
    with pytest.raises(SecretUnreadableError) as caught:
        Secrets({}, folder).resolve(reference)
    assert reference in str(caught.value)


@pytest.mark.parametrize("name", ["SKILLBUS_NATS_TOKEN", "skillbus_nats_token"])
def test_our_own_secrets_are_not_for_providers(name: str) -> None:
    with pytest.raises(SecretUnreadableError, match="not for providers"):
        Secrets({name: KEY}).resolve(f"env:{name}")


@pytest.mark.parametrize("value", [f"{KEY}\nX-Evil: 1", f"{KEY} two", f"{KEY}é", "", "   ", f"{KEY}\0", "密钥"])
def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_told(folder: Path, value: str) -> None:
    (folder / "bad").write_text(value)
    problems = []
    for reference in ("env:BAD", "file:bad"):
        with pytest.raises(SecretUnreadableError) as caught:
            Secrets({"BAD": value}, folder).resolve(reference)
        problems.append(f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}")
    assert not any(KEY in problem for problem in problems)


def test_a_key_given_in_place_of_a_reference_is_not_told() -> None:
    with pytest.raises(SecretUnreadableError) as caught:
        Secrets({}).resolve(KEY)
    assert KEY not in str(caught.value)


def test_the_key_is_in_no_repr() -> None:
    assert KEY not in repr(Secrets({"A": KEY}).resolve("env:A"))
    assert KEY not in repr(Secrets({"A": KEY}))
