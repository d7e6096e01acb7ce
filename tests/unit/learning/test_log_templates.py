"""The miner finds the templates of logs in many styles, with its memory bounded."""

import random
from collections import defaultdict
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.evaluation.log_templates import group_lines, score_groups
from skillbus.learning.logs.templates.generalization import Generalizer
from skillbus.learning.logs.templates.masking import VALUE, mask_values
from skillbus.learning.logs.templates.miner import OTHER, LogMiner

from .log_families import FAMILIES, LogFamily


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_templates_of_a_log_in_any_style_are_found(family: LogFamily) -> None:
    lines, truth = family.write_lines(400, seed=2)
    score = score_groups([str(number) for number in truth], group_lines(lines))
    assert (score.ga, score.fga) >= (0.95, 0.92)


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("Received block blk_-12 of size 5 from /10.0.0.1:8020", "Received block <*> of size <*> from <*>"),
        ("close, 0 bytes (1.1 KB) sent, lifetime <1 sec", "close, <*> sent, lifetime <*>"),
        ("user=root uid=0 tty=ssh rhost=", "user=<*> uid=<*> tty=<*> rhost="),
        ('"GET /v2/a/servers?x=1 HTTP/1.1" status: 200', '"GET <*>" status: <*>'),
        ("listening on [akka.tcp://Actor@host-1:80]", "listening on [<*>]"),
        ("key 'orders' is true in C:\\temp\\x", "key <*> is <*> in C:<*>"),
        ("Active files: /a/b1 /a/b2 /a/b3", "Active files: <*>"),
        ("Server environment:java.vm.name=Open VM 64", "Server environment:<*>"),
        ("lease of ab:cd:ef:ab:cd:ef, or 'two words' at fe80:0:0:0:ab", "lease of <*>, or <*> at <*>"),
        ("and/or the r-o mode of a_b", "and/or the r-o mode of a_b"),
        ("depth.....3 of rack-[1, 7] at https://a.b/c: up", "depth... <*> of <*> at <*>: up"),
        ("event a.b.c.LID_SHUT of a.b.c.Door on Sat Jun 18 04:05:06 UTC 2031", "event a.b.c.LID_SHUT of <*> on <*>"),
        ("votes a1 <yes> b2 <yes> c3 <yes>", "votes <*> <yes>"),
    ],
)
def test_values_are_masked_and_words_stay(message: str, masked: str) -> None:
    assert mask_values(message) == masked


def test_states_in_capitals_and_few_words_are_part_of_the_text() -> None:
    texts = [f"node is {state} now" for state in ("UP", "DOWN", "LEAVING")] + ["VM started here", "VM paused here"]
    assert Generalizer().generalize_messages(texts) == {text: text for text in texts}


def test_names_that_vary_in_one_place_are_values() -> None:
    users = ["anna", "bob", "carl", "dora", "emil", "fritz"]
    assert set(Generalizer().generalize_messages([f"user {user} left the room" for user in users]).values()) == {
        f"user {VALUE} left the room"
    }


def test_numbers_stand_for_the_same_template_after_the_rarest_were_forgotten() -> None:
    miner = LogMiner(most_patterns=40)
    words = ["".join(pair) for pair in zip("abcdefghijkl" * 20, "mnopqrstuvw" * 21, strict=False)]
    draw = random.Random(3)  # noqa: S311
    numbers = defaultdict[str, set[int]](set)
    for turn in range(2_000):
        numbers["frequent"].add(miner.add_message(f"request {turn} took {turn} ms"))
        miner.add_message(" ".join(draw.choices(words, k=draw.randrange(2, 9))))
    templates = miner.build_templates()
    assert len(templates) <= 41
    assert {miner.resolve_number(number) for number in numbers["frequent"]} - {OTHER} == {
        number for number, text in templates.items() if text == "request <*> took <*>"
    }


def test_new_names_in_the_place_of_names_belong_to_the_template_at_once() -> None:
    miner = LogMiner(most_patterns=40)
    names = ["".join(pair) for pair in product("abcdefgh", repeat=3)]
    numbers = [miner.add_message(f"user {name} left the {name} room 7") for name in names]
    templates = miner.build_templates()
    assert {templates[miner.resolve_number(number)] for number in numbers} == {"user <*> left the <*> room <*>"}


@given(st.lists(st.text(max_size=60), max_size=12))
def test_any_lines_have_a_group_each_and_the_same_again(lines: list[str]) -> None:
    groups = group_lines(lines)
    assert len(groups) == len(lines)
    assert group_lines(lines) == groups


@given(st.binary(max_size=400))
def test_masking_bytes_twice_changes_nothing_more(data: bytes) -> None:
    once = mask_values(data.decode("latin-1").replace(VALUE, ""))
    assert mask_values(once) == once


def test_the_scores_are_those_of_the_literature() -> None:
    score = score_groups(["a", "a", "b", "c"], ["1", "1", "2", "2"])
    assert (score.ga, score.fga) == (0.5, 0.4)
