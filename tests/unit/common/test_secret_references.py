"""Keys by reference: what is read, what is refused, and that no refusal tells the key."""

import os
from pathlib import Path

import pytest

from skillbus.common.outbound.secret_grants import STDIO, Destination, SecretGrants
from skillbus.common.secrets import SecretNotGrantedError, Secrets, SecretUnreadableError

KEY = "sk-canary-0123456789"
PLACE = Destination("https", "api.example.org")
NAMES = ("OPENAI_API_KEY", "MISSING", "BAD", "A", "SKILLBUS_NATS_TOKEN", "skillbus_nats_token")
GRANTS = SecretGrants.parse(";".join(f"{name}=api.example.org" for name in (*NAMES, "file:.")))
"""All references of these tests, for one place."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "openai").write_text(f"{KEY}\n")
    (tmp_path / "outside").write_text(KEY)
    return folder


def resolved(secrets: Secrets, reference: str) -> str:
    return secrets.resolve(reference, PLACE).get_secret_value()


def test_a_variable_is_read_anew_each_time() -> None:
    environment = {"OPENAI_API_KEY": KEY}
    secrets = Secrets(GRANTS, environment)
    assert resolved(secrets, "env:OPENAI_API_KEY") == KEY
    environment["OPENAI_API_KEY"] = "sk-next"
    assert resolved(secrets, "env:OPENAI_API_KEY") == "sk-next"


def test_a_file_is_read_anew_each_time_without_the_white_space_around_it(folder: Path) -> None:
    secrets = Secrets(GRANTS, {}, folder)
    assert resolved(secrets, "file:openai") == KEY
    (folder / "openai").write_text("  sk-next\r\n")
    assert resolved(secrets, "file:openai") == "sk-next"


def test_a_file_may_be_named_by_its_whole_path(folder: Path) -> None:
    assert resolved(Secrets(GRANTS, {}, folder), f"file:{folder}/openai") == KEY


def test_links_inside_the_folder_are_followed_as_kubernetes_makes_them(folder: Path) -> None:
    (folder / "..2026").mkdir()
    (folder / "..2026" / "key").write_text(KEY)
    (folder / "..data").symlink_to("..2026")
    (folder / "key").symlink_to("..data/key")
    assert resolved(Secrets(GRANTS, {}, folder), "file:key") == KEY


@pytest.mark.parametrize("place", ["../outside", "sub/../../outside", "/etc/hostname", "..", "", ".", "a\0b"])
def test_nothing_outside_the_folder_is_read(folder: Path, place: str) -> None:
    with pytest.raises(SecretUnreadableError):
        Secrets(GRANTS, {}, folder).resolve(f"file:{place}", PLACE)


def test_a_link_that_leads_out_of_the_folder_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "there").symlink_to(folder.parent)
    for place in ("link", "there/outside"):
        with pytest.raises(SecretUnreadableError, match="only files below"):
            Secrets(GRANTS, {}, folder).resolve(f"file:{place}", PLACE)


def test_a_link_to_itself_is_refused(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    with pytest.raises(SecretUnreadableError):
        Secrets(GRANTS, {}, folder).resolve("file:loop", PLACE)


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(SecretUnreadableError, match="not a plain file"):
        Secrets(GRANTS, {}, folder).resolve("file:pipe", PLACE)


def test_a_file_of_more_than_64_kib_is_refused(folder: Path) -> None:
    (folder / "large").write_text("k" * 65_537)
    (folder / "just").write_text("k" * 65_536)
    with pytest.raises(SecretUnreadableError, match="at most 65536 bytes"):
        Secrets(GRANTS, {}, folder).resolve("file:large", PLACE)
    assert len(resolved(Secrets(GRANTS, {}, folder), "file:just")) == 65_536


@pytest.mark.parametrize("reference", ["env:MISSING", "file:missing", "env:", "env:NO-NAME", "env:A=B"])
def test_what_is_not_there_is_named_by_its_reference(folder: Path, reference: str) -> None:
    with pytest.raises(SecretUnreadableError) as caught:
        Secrets(GRANTS, {}, folder).resolve(reference, PLACE)
    assert reference in str(caught.value)


@pytest.mark.parametrize("name", ["SKILLBUS_NATS_TOKEN", "skillbus_nats_token"])
def test_our_own_secrets_are_not_for_providers(name: str) -> None:
    with pytest.raises(SecretUnreadableError, match="not for providers"):
        Secrets(GRANTS, {name: KEY}).resolve(f"env:{name}", PLACE)


@pytest.mark.parametrize("value", [f"{KEY}\nX-Evil: 1", f"{KEY} two", f"{KEY}é", "", "   ", f"{KEY}\0", "密钥"])
def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_told(folder: Path, value: str) -> None:
    (folder / "bad").write_text(value)
    problems = []
    for reference in ("env:BAD", "file:bad"):
        with pytest.raises(SecretUnreadableError) as caught:
            Secrets(GRANTS, {"BAD": value}, folder).resolve(reference, PLACE)
        problems.append(f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}")
    assert not any(KEY in problem for problem in problems)


def test_a_key_given_in_place_of_a_reference_is_not_told() -> None:
    with pytest.raises(SecretUnreadableError) as caught:
        Secrets(GRANTS, {}).resolve(KEY, PLACE)
    assert KEY not in str(caught.value)


def test_the_key_is_in_no_repr() -> None:
    assert KEY not in repr(Secrets(GRANTS, {"A": KEY}).resolve("env:A", PLACE))
    assert KEY not in repr(Secrets(GRANTS, {"A": KEY}))


def test_a_reference_that_is_not_listed_is_refused_with_what_to_change(folder: Path) -> None:
    for reference in ("env:HOME_KEY", "file:openai"):
        with pytest.raises(SecretNotGrantedError, match="SKILLBUS_SECRETS") as caught:
            Secrets(SecretGrants.parse(""), {"HOME_KEY": KEY}, folder).resolve(reference, PLACE)
        assert f"{reference.removeprefix('env:')}=api.example.org" in str(caught.value)


@pytest.mark.parametrize(
    "destination", [Destination("https", "evil.example"), Destination("http", "api.example.org"), STDIO]
)
def test_a_secret_goes_to_no_place_that_is_not_listed_with_it(folder: Path, destination: Destination) -> None:
    secrets = Secrets(GRANTS, {"A": KEY}, folder)
    for reference in ("env:A", "file:openai"):
        with pytest.raises(SecretNotGrantedError, match="SKILLBUS_SECRETS"):
            secrets.resolve(reference, destination)
        with pytest.raises(SecretNotGrantedError, match="SKILLBUS_SECRETS"):
            secrets.resolve_line(reference, destination)


def test_whether_an_unlisted_variable_exists_is_not_told() -> None:
    problems = []
    for environment in ({}, {"PRIVATE": KEY}):
        with pytest.raises(SecretNotGrantedError) as caught:
            Secrets(GRANTS, environment).resolve("env:PRIVATE", PLACE)
        problems.append(str(caught.value))
    assert problems[0] == problems[1]


def test_a_file_is_listed_by_itself_or_by_its_folder_and_the_closest_entry_counts(folder: Path) -> None:
    (folder / "mcp").mkdir()
    (folder / "mcp" / "one").write_text(KEY)
    (folder / "mcp" / "two").write_text(KEY)
    grants = SecretGrants.parse(f"file:mcp=api.example.org; file:{folder}/mcp/two=other.example.org")
    secrets = Secrets(grants, {}, folder)
    assert resolved(secrets, "file:mcp/one") == resolved(secrets, f"file:{folder}/mcp/one") == KEY
    for reference in ("file:mcp/two", f"file:{folder}/mcp/two", "file:./mcp//two", "file:openai", "file:mcpx"):
        with pytest.raises(SecretNotGrantedError):
            secrets.resolve(reference, PLACE)
