"""Readers of access logs and HAR files."""

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.learning.traffic.access_log import read_access_log
from skillbus.learning.traffic.calls import UnreadableTrafficError
from skillbus.learning.traffic.har import read_har
from skillbus.learning.traffic.learning import learn_from_calls
from skillbus.learning.traffic.settings import TrafficSettings


@pytest.mark.parametrize(
    "record",
    [
        {"method": "post", "path": "/a/b?q=1", "headers": {"X-Key": "v"}, "status": 400, "body": {"msg": "no"}},
        {"method": "POST", "url": "https://h.example/a/b?q=1", "request_headers": [{"name": "X-Key", "value": "v"}],
         "status_code": "400", "response_body": '{"msg": "no"}'},
        {"request": {"method": "POST", "url": "/a/b", "query": {"q": "1"}, "headers": [["X-Key", "v"]]},
         "response": {"status": 400, "body": {"error": "no"}}},
        {"request": "POST /a/b?q=1 HTTP/1.1", "http_x_key": "v", "http_authorization": "-", "status": "400",
         "message": "no"},
        {"request_method": "POST", "request_uri": "/a/b", "args": "q=1", "http_x_key": "v", "status": 400,
         "error": "no"},
        {"req": {"method": "POST", "url": "/a/b", "headers": ["X-Key: v"], "body": {"q": 1}},
         "res": {"statusCode": 400, "body": "no"}},
    ],
)  # fmt: skip
def test_dialects_of_access_logs_give_the_same_call(record: dict[str, object]) -> None:
    [call] = read_access_log(["", json.dumps(record), "no call"])
    assert (call.line, call.method, call.path, call.status, call.message) == (2, "POST", "/a/b", 400, "no")
    assert call.headers == {"x-key"}
    assert call.parameters == {"q"}


def test_a_file_without_calls_is_an_error_of_the_file() -> None:
    with pytest.raises(UnreadableTrafficError):
        list(read_access_log(["hello", '{"status": 200}']))


def entry(**changed: object) -> dict[str, object]:
    request = {"method": "GET", "url": "http://h.example/x", "headers": [{"name": "Cookie", "value": "sid=1"}]}
    return {"request": request, "response": {"status": 200, "content": {}}} | changed


def test_har_entries_are_read_and_incomplete_ones_are_passed_over() -> None:
    entries = [entry(), {}, entry(response=None), {"request": {}}, "x", entry(response={"status": 0}), entry()]
    text = "\ufeff" + json.dumps({"log": {"version": "1.2", "entries": entries}}, indent=1)
    calls = list(read_har(text))
    assert [(call.method, call.host, call.path, call.headers) for call in calls] == [
        ("GET", "h.example", "/x", frozenset({"cookie"}))
    ] * 2
    assert text.splitlines()[calls[1].line - 1].strip() == "{"


def test_a_har_file_that_ends_early_gives_its_calls_and_an_error() -> None:
    text = json.dumps({"log": {"entries": [entry()] * 3}})
    calls = read_har(text[: len(text) - 40])
    assert next(calls).path == next(calls).path == "/x"
    with pytest.raises(UnreadableTrafficError):
        next(calls)


def test_few_calls_give_no_rule() -> None:
    text = json.dumps({"log": {"entries": [entry(), entry(response={"status": 401})] * 4}})
    assert not learn_from_calls("a.har", read_har(text), TrafficSettings()).items


def nest_json(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    names = st.sampled_from(["request", "response", "method", "path", "status", "headers", "body", "name", "value"])
    return st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)


@settings(max_examples=50, deadline=None)
@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_har, lambda text: read_access_log(text.splitlines())):
        with suppress(UnreadableTrafficError):
            assert learn_from_calls("file", read(text), TrafficSettings()).items == ()


@settings(max_examples=50, deadline=None)
@given(st.recursive(st.none() | st.integers() | st.text(max_size=9), nest_json, max_leaves=8))
def test_any_json_record_is_read_or_passed_over(value: object) -> None:
    plain = {"method": "GET", "path": "/", "status": 200}
    varied = plain | {"request": value, "headers": value, "body": value}
    assert next(read_access_log([json.dumps(plain), json.dumps(varied)])).path == "/"
    assert len(list(read_access_log([json.dumps(plain), json.dumps(varied)]))) in {1, 2}
    list(read_har(json.dumps({"log": {"entries": [value, {"request": value, "response": value}]}})))


@pytest.mark.parametrize("text", ["[" * 200_000, '{"log":' * 100_000, '{"log": {"entries": [' + "[" * 200_000])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(UnreadableTrafficError):
        list(read_har(text))
    with pytest.raises(UnreadableTrafficError):
        list(read_access_log([text]))


def test_a_value_of_50_megabytes_is_refused_before_it_is_held() -> None:
    held = 0

    def write_chunks() -> Iterator[str]:
        nonlocal held
        yield '{"log": {"entries": ["'
        for _ in range(50):
            held += 1
            yield "x" * 1_000_000

    with pytest.raises(UnreadableTrafficError):
        list(read_har(write_chunks()))
    assert held < 40
