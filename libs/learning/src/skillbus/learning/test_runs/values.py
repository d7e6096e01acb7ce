"""Test runs as values that can be stored: what passed as hashes, what failed with its cause.

Everything in them is redacted.
"""

from array import array
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from typing import ClassVar, Final

from skillbus.contracts.message import Message

CALL: Final = "call"
COLLECTION: Final = "collection"
MAX_FAILURES: Final = 2_000
"""Most failures of a run that are kept with their cause. Of further ones only the test is known."""


class UnreadableRunError(ValueError):
    """The file is no test report, or is broken. The message says where."""


class RunFrame(Message):
    """Place in the code that a failure passed through."""

    module: str
    """Name of the module or class: `itsdangerous.serializer`, `org.example.Parser`, `lib/main.js`."""
    function: str
    line: int = 0
    place: str
    """`project`, `test` or `external`."""


class TestFailure(Message):
    """Failed attempt of a test."""

    __test__: ClassVar[bool] = False

    test: str
    """Id: `tests/test_api.py::TestApi::test_get[json]`, or class and name separated by `::`."""
    key: int
    """Number of the test, from its id before redaction."""
    stage: str = CALL
    """`setup`, `call`, `teardown` or `collection`."""
    exception: str
    """Type of the innermost cause, without its module."""
    outer: str = ""
    """Type of the exception that reached the test, if it is another one."""
    message: str
    embedded: str = ""
    """Error text inside the message, such as the detail of an HTTP response."""
    assertion: str = ""
    """Source line of a failed assertion."""
    frames: tuple[RunFrame, ...] = ()
    """From the outermost to the innermost."""
    file: str
    line: int
    quote: str
    """Literal text of the redacted file."""


class SkippedTests(Message):
    """Tests of a run that were skipped for one reason."""

    reason: str
    keys: str
    file: str
    line: int
    quote: str


class TestRun(Message):
    """Results of one run of a test suite."""

    __test__: ClassVar[bool] = False

    run: str
    """Id, by default from the name of the file."""
    named: bool = False
    """True if the id was given, and so belongs to this run only."""
    commit: str = ""
    started: str = ""
    """Time in ISO 8601, UTC."""
    branch: str = ""
    subject: str = ""
    """First line of the commit's message."""
    files: tuple[str, ...]
    format: str
    """`junit` or `pytest_json`; both, separated by a comma, after they were joined."""
    cases: int
    """Test results in the files."""
    passed: str
    """Keys of the tests with an attempt that passed."""
    failed: str
    """Keys of the tests with an attempt that failed."""
    failures: tuple[TestFailure, ...] = ()
    skipped: tuple[SkippedTests, ...] = ()


def get_test_key(test: str) -> int:
    """Return a number for a test that is the same in all dialects of test ids."""
    name, bracket, parameters = test.partition("[")
    plain = name.replace(".py::", ".").replace("::", ".").replace("/", ".").replace("\\", ".").strip(".")
    digest = blake2b(f"{plain}{bracket}{parameters}".encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def encode_keys(keys: Iterable[int]) -> str:
    """Return a set of test keys as text."""
    return b64encode(array("Q", sorted(set(keys))).tobytes()).decode("ascii")


def decode_keys(text: str) -> "array[int]":
    """Return the sorted test keys of a text."""
    keys = array("Q")
    keys.frombytes(b64decode(text))
    return keys


def has_key(keys: "array[int]", key: int) -> bool:
    """Return True if a key is among sorted keys."""
    place = bisect_left(keys, key)
    return place < len(keys) and keys[place] == key
