"""Header and parameter rules from access logs of known truth."""

import json
from collections.abc import Callable
from random import Random

import pytest

from skillbus.learning.redaction import redact_text

from .traffic_samples import CANARY, SampleEndpoint, build_access_log, learn_rules, list_rules

SLUGS = ("red-shoes", "blue-hat", "wool-socks", "rain-coat", "sun-glasses", "old-map")
CITIES = ("北京", "上海-浦东", "广州", "深圳", "成都", "杭州-西湖")


def number(path: str) -> Callable[[Random], str]:
    return lambda random: path.replace("N", str(random.randrange(10**6)))


def one_of(path: str, values: tuple[str, ...]) -> Callable[[Random], str]:
    return lambda random: path.replace("S", random.choice(values)).replace("N", str(random.randrange(10**6)))


SHOP = [
    SampleEndpoint("GET", number("/api/product/list")),
    SampleEndpoint("POST", number("/api/order/N/pay"), ("authorization", "idempotency-key")),
    SampleEndpoint("GET", number("/api/live/rooms/N"), ("game-id",), message="缺少必填请求头: {name}"),
    SampleEndpoint("POST", number("/api/live/rooms"), ("game-id",), message="缺少必填请求头: {name}"),
    SampleEndpoint("GET", number("/api/user/N/profile"), ("x-session",), message="forbidden", status=403),
]


def test_rules_are_found_and_nothing_else_is() -> None:
    assert list_rules(learn_rules(build_access_log(SHOP))) == {
        ("POST", "/api/order/*/pay", "authorization"),
        ("POST", "/api/order/*/pay", "idempotency-key"),
        ("GET,POST", "/api/live/*", "game-id"),
        ("GET", "/api/user/*/profile", "x-session"),
    }


def test_slugs_tenants_and_chinese_segments_do_not_split_a_rule() -> None:
    tenants = ("acme", "globex", "initech")
    endpoints = [
        SampleEndpoint("GET", one_of("/shop/S/reviews", SLUGS), ("x-shop-token",)),
        SampleEndpoint("GET", one_of("/城市/S/天气", CITIES), ("x-region",), message="请求头 {name} 不能为空"),
        SampleEndpoint("GET", one_of("/t/S/orders", tenants), ("x-tenant",)),
        SampleEndpoint("POST", one_of("/t/S/orders/N/items", tenants)),
        SampleEndpoint("GET", one_of("/articles/S", SLUGS), ("x-reader",)),
        SampleEndpoint("GET", number("/articles")),
    ]
    assert list_rules(learn_rules(build_access_log(endpoints, calls=2_500))) == {
        ("GET", "/shop/*/reviews", "x-shop-token"),
        ("GET", "/城市/*/天气", "x-region"),
        ("GET", "/t/*/orders", "x-tenant"),
        ("GET", "/articles/*", "x-reader"),
    }


def test_a_rule_of_one_tenant_or_one_host_is_a_rule_of_that_tenant_or_host() -> None:
    endpoints = [
        SampleEndpoint("GET", number("/t/acme/orders"), ("x-contract",)),
        SampleEndpoint("GET", number("/t/acme/orders/N/items")),
        SampleEndpoint("GET", number("/t/globex/orders")),
        SampleEndpoint("GET", number("/t/globex/orders/N/items")),
        SampleEndpoint("GET", number("/status"), ("x-probe",), host="eu.example.com"),
        SampleEndpoint("GET", number("/status"), host="us.example.com"),
    ]
    findings = learn_rules(build_access_log(endpoints))
    assert list_rules(findings) == {("GET", "/t/acme/orders", "x-contract"), ("GET", "/status", "x-probe")}
    assert [item.statement.subject for item in findings.items if item.scope == "/status"] == ["/status@eu.example.com"]


def test_headers_that_are_always_sent_together_are_no_two_rules() -> None:
    silent = SampleEndpoint("GET", number("/a"), ("x-one",), message="no", status=403, together={"x-two": "x-one"})
    assert list_rules(learn_rules(build_access_log([silent]))) == set()
    known = SampleEndpoint("GET", number("/a"), ("authorization",), message="no", together={"x-two": "authorization"})
    assert list_rules(learn_rules(build_access_log([known]))) == {("GET", "/a", "authorization")}
    named = SampleEndpoint("GET", number("/a"), ("x-one",), together={"x-two": "x-one"})
    assert list_rules(learn_rules(build_access_log([named]))) == {("GET", "/a", "x-one")}


def test_a_parameter_that_is_required_is_a_rule() -> None:
    endpoint = SampleEndpoint("GET", number("/search"), parameters=("q",), message="missing parameter: {name}")
    assert list_rules(learn_rules(build_access_log([endpoint]))) == {("GET", "/search", "q")}


def test_a_constraint_that_errors_state_is_a_rule_of_its_parameter() -> None:
    good = {"method": "POST", "path": "/pay", "headers": {}, "status": 200, "body": {"msg": "ok"}}
    bad = good | {"status": 422, "body": {"detail": "amount must be greater than 0"}}
    findings = learn_rules([json.dumps(call) for call in [good] * 20 + [bad] * 4])
    assert list_rules(findings) == {("POST", "/pay", "amount")}
    assert "amount must be greater than 0" in findings.items[0].content
    assert not learn_rules([json.dumps(call) for call in [good] * 20 + [bad] * 2]).items


def test_quotes_are_literal_and_no_secret_or_address_is_in_any_item() -> None:
    lines = build_access_log(SHOP)
    findings = learn_rules(lines)
    for item in findings.items:
        assert all(quote.quote in redact_text(lines[quote.line - 1]) for quote in item.evidence)
        assert CANARY not in item.model_dump_json()
        assert "jane.doe" not in item.model_dump_json()


def test_the_same_log_again_gives_the_same_items() -> None:
    lines = build_access_log(SHOP)
    assert learn_rules(lines) == learn_rules(lines)


def test_a_log_in_another_order_gives_the_same_statements() -> None:
    lines = build_access_log(SHOP)
    other = lines[::-1]
    assert [item.statement for item in learn_rules(lines).items] == [
        item.statement for item in learn_rules(other).items
    ]


@pytest.mark.parametrize("seed", range(2))
def test_precision_and_recall_hold_for_other_traffic(seed: int) -> None:
    assert len(list_rules(learn_rules(build_access_log(SHOP, seed=seed)))) == 4
