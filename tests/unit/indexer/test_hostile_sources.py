"""Files that are small and would cost much: each is read in moments, or not at all."""

import json
import time
from collections.abc import Iterator

import pytest

from skillbus.indexer.domain.package.argparse_schema import read_arguments
from skillbus.indexer.domain.package.entry_point import SCHEMA_BYTES
from skillbus.indexer.domain.package.files import find_scripts
from skillbus.indexer.domain.package.yaml_repair import parse_skill_front_matter

PARSER = "import argparse\np = argparse.ArgumentParser()\n"


@pytest.fixture(autouse=True)
def within_two_seconds_of_cpu() -> Iterator[None]:
    """Reading in quadratic time would take minutes for each of these sources."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "source",
    [
        "a: b: x" + " " * 60_000 + "x\n",
        "a: b: c\n" + "\n" * 60_000,
        "a: b: c\n" + " \n a: b: c" * 7_000,
        "a: " + "x: " * 20_000,
        "a: " + "1:" * 30_000,
    ],
    ids=["spaces", "blank-lines", "blocks", "colons", "sexagesimal"],
)
def test_yaml_that_wants_repair_is_repaired_in_one_pass(source: str) -> None:
    assert list(parse_skill_front_matter(source).fields) == ["a"]


@pytest.mark.parametrize("source", [b"\n" * 2_000_000, b" " * 2_000_000, b" \n" * 1_000_000, b"import " * 300_000])
def test_a_long_file_that_may_be_a_test_is_looked_through_in_one_pass(source: bytes) -> None:
    data = b"__main__" + source
    assert [script.path for script in find_scripts([("test_a.py", len(data))], lambda _: data)] == ["test_a.py"]


@pytest.mark.parametrize("first", ["'x'", "['x']", "{'x': 1}"])
@pytest.mark.parametrize("twice", ["a + a", "[a, a]", "{'a': a, 'b': a}"])
def test_a_name_that_doubles_itself_line_by_line_fills_nothing(first: str, twice: str) -> None:
    doubled = f"a = {first}\n" + f"a = {twice}\n" * 60
    source = (
        f"{PARSER}{doubled}p.add_argument('--q', default=a, choices=[a], help=a)\np.add_argument('--n', type=int)\n"
    )
    schema = read_arguments(source.encode()).schema
    assert schema is not None
    assert len(json.dumps(schema)) < SCHEMA_BYTES
    assert schema["properties"]["n"] == {"type": "integer"}
