"""A home finds its names in a sentence."""

from skillbus.contracts.indexer.devices import Device
from skillbus.queryir.home import Home, NameKind
from skillbus.queryir.parser import detect_language
from skillbus.queryir.writing import fold_text


def device(identifier: str, name: str, *aliases: str, room: str | None = None, kind: str = "light") -> Device:
    return Device(home="home", id=identifier, name=name, aliases=aliases, room=room, type=kind)


HOME = Home(
    "home",
    [
        device("1", "臥室燈", "夜燈", room="臥室"),
        device("2", "臥室", room="書房"),
        device("3", "TV", room="Living Room", kind="tv"),
        device("4", "夜灯", room="卧室"),
    ],
)


def test_names_are_found_longest_first_in_either_script() -> None:
    found = list(HOME.match_names(fold_text("打开卧室灯").text, 2))
    assert [(match.kind, match.spelling) for match in found] == [
        (NameKind.NAME, "臥室燈"),
        (NameKind.NAME, "臥室"),
        (NameKind.ROOM, "臥室"),
    ]
    assert [one.id for one in found[2].devices] == ["1", "4"]


def test_a_name_comes_before_an_alias_of_the_same_spelling() -> None:
    found = list(HOME.match_names("夜灯", 0))
    assert [(match.kind, [one.id for one in match.devices]) for match in found] == [
        (NameKind.NAME, ["4"]),
        (NameKind.ALIAS, ["1"]),
    ]


def test_a_latin_name_is_found_only_as_a_whole_word() -> None:
    assert not list(HOME.match_names("tvs", 0))
    assert not list(HOME.match_names("mtv", 1))
    assert [match.spelling for match in HOME.match_names("打开tv吧", 2)] == ["TV"]
    assert [match.spelling for match in HOME.match_names("living room", 0)] == ["Living Room"]


def test_the_language_of_a_sentence_is_that_of_its_words_besides_names() -> None:
    assert detect_language(fold_text("turn on 臥室燈"), HOME) == "en"
    assert detect_language(fold_text("开 living room 的 TV"), HOME) == "zh"
    assert detect_language(fold_text("臥室燈"), HOME) == "zh"
    assert detect_language(fold_text("🙂"), HOME) == "en"
