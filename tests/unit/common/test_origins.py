"""Where a request came from, as its headers and the server say."""

import pytest

from skillbus.common.bus import headers as h
from skillbus.contracts.audit_log import AGENT_ACCOUNT, CORE_ACCOUNT, AuditDoor
from skillbus.contracts.bus_users import BUS_USERS


def test_the_account_that_is_believed_is_that_of_the_gateway() -> None:
    assert {user.zone for user in BUS_USERS if user.name == "gateway"} == {CORE_ACCOUNT}
    assert [user.name for user in BUS_USERS if user.zone == AGENT_ACCOUNT] == ["agent"]


def test_a_request_of_the_gateway_names_the_key_and_the_address() -> None:
    given = h.Origin(AuditDoor.HTTP, "7k2m9qx4vt", "192.0.2.1")
    token = h.origin.set(given)
    try:
        headers = h.make_origin_headers("skillbus-gateway")
    finally:
        h.origin.reset(token)
    assert h.parse_origin(headers) == given


def test_a_process_that_nobody_asked_gives_its_own_name() -> None:
    assert h.parse_origin(h.make_origin_headers("skillbus-agent")) == h.Origin(AuditDoor.BUS, "skillbus-agent")


def test_what_a_caller_on_the_bus_says_about_itself_stays_a_claim_by_the_door_bus() -> None:
    assert h.parse_origin({h.ACTOR: "owner", h.ADDRESS: "192.0.2.1"}) == h.Origin(AuditDoor.BUS, "owner")


@pytest.mark.parametrize("info", ['{"acc":"CLIENTS","rtt":1}', '{"acc":7}', "{}", "[]", "x", "", '{"acc":"a b"}'])
def test_the_door_http_is_not_believed_from_another_account(info: str) -> None:
    origin = h.parse_origin({h.DOOR: "http", h.ACTOR: "owner", h.ADDRESS: "192.0.2.1", h.REQUEST_INFO: info})
    assert (origin.door, origin.address) == (AuditDoor.BUS, None)
    assert origin.account is not None


def test_the_gateway_is_believed_where_its_request_crosses_into_another_account() -> None:
    origin = h.parse_origin({h.DOOR: "http", h.ACTOR: "owner", h.REQUEST_INFO: '{"acc":"CORE","rtt":1}'})
    assert (origin.door, origin.actor, origin.account) == (AuditDoor.HTTP, "owner", "CORE")


def test_the_agent_passes_the_address_of_its_caller_on_as_its_own_claim() -> None:
    headers = {h.DOOR: "http", h.ACTOR: "7k2m9qx4vt", h.ADDRESS: "192.0.2.1", h.REQUEST_INFO: '{"acc":"AGENT"}'}
    assert h.parse_origin(headers) == h.Origin(AuditDoor.BUS, "7k2m9qx4vt", "192.0.2.1", AGENT_ACCOUNT)


@pytest.mark.parametrize("name", ["a b", "a\nb", "x" * 101, "", "\u4e2d"])
def test_a_name_that_is_none_is_left_out(name: str) -> None:
    assert h.parse_origin({h.ACTOR: name}).actor is None
