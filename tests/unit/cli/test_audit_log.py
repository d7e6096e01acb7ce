"""`skillbus audit log`, beside `skillbus audit`."""

import json

import httpx
import pytest

from skillbus.cli.server.launcher import Externals

from .conftest import CommandLine

DIGESTS = {"agrees": True, "project": "default"}


def fact(sequence: int, **more: object) -> dict[str, object]:
    usual = {
        "sequence": sequence,
        "at": "2026-11-23T10:30:00Z",
        "act": "approve_network",
        "outcome": "done",
        "subjects": ["calculate"],
        "count": 1,
        "details": {"approved": ["api.example.org:443"]},
        "service": "indexer",
        "door": "http",
        "actor": "7k2m9qx4vt",
        "address": "192.0.2.1",
        "project": "default",
    }
    return usual | more


class AuditServer:
    """Answers `/api/audit-log` in pages of two, and `/api/audit`."""

    def __init__(self, *facts: dict[str, object]) -> None:
        self.facts = facts
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path == "/api/audit":
            return httpx.Response(200, json=DIGESTS)
        before = int(request.url.params.get("before", "999"))
        older = [it for it in self.facts if int(str(it["sequence"])) < before]
        page = older[: min(2, int(request.url.params["limit"]))]
        return httpx.Response(
            200, json={"facts": page, "next": page[-1]["sequence"] if len(older) > len(page) else None}
        )

    @property
    def externals(self) -> Externals:
        return Externals(transport=httpx.MockTransport(self))


def test_acts_are_listed_page_after_page_with_who_what_and_from_where(skillbus: CommandLine) -> None:
    server = AuditServer(fact(9), fact(8, act="put_tools", count=500, subjects=["a"], details={}), fact(2))
    listed = skillbus("audit", "log", "--json", externals=server.externals)
    assert [it["sequence"] for it in json.loads(listed.stdout)["facts"]] == [9, 8, 2]
    shown = skillbus("audit", "log", externals=server.externals).stdout
    for cell in ("2026-11-23", "7k2m9qx4vt", "192.0.2.1", "approve_network", "443", "499 more", "done"):
        assert cell in shown.replace("\n", ""), shown


def test_a_refusal_a_caller_on_the_bus_and_a_hostile_name_are_shown_as_what_they_are(skillbus: CommandLine) -> None:
    refused = {"outcome": "refused", "code": "forbidden", "door": "bus", "address": None, "subjects": ["\x1b[31mred"]}
    shown = skillbus("audit", "log", externals=AuditServer(fact(1, **refused)).externals).stdout
    assert "\x1b" not in shown
    for cell in ("refused", "forbidden", "bus"):
        assert cell in shown, shown


def test_filters_are_passed_on_and_an_empty_log_is_said_in_words(skillbus: CommandLine) -> None:
    server = AuditServer()
    words = ("--act", "pin_skill", "--by", "owner", "--subject", "x", "--project", "p", "--limit", "7")
    assert "No acts" in skillbus("audit", "log", *words, externals=server.externals).stdout
    sent = dict(server.requests[0].url.params)
    assert sent == {"act": "pin_skill", "actor": "owner", "subject": "x", "project": "p", "limit": "7"}


def test_more_than_the_limit_is_hinted_at(skillbus: CommandLine) -> None:
    server = AuditServer(fact(3), fact(2), fact(1))
    assert "--limit" in skillbus("audit", "log", "--limit", "2", externals=server.externals).stdout


def test_audit_alone_and_with_options_compares_as_before(skillbus: CommandLine) -> None:
    server = AuditServer()
    for words, fix in (((), False), (("--fix",), True), (("compare", "--fix"), True), (("--json",), False)):
        result = skillbus("audit", *words, externals=server.externals)
        assert result.exit_code == 0, result.output
        assert json.loads(server.requests[-1].content)["fix"] is fix
    assert skillbus("audit", "lgo", externals=server.externals).exit_code == 2


def test_on_80_columns_each_act_is_whole(skillbus: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = skillbus("audit", "log", externals=AuditServer(fact(9, act="remove_mcp_server")).externals).stdout
    [line] = [line for line in shown.splitlines() if "7k2m9qx4vt" in line]
    assert line.split() == ["11-23", "10:30:00", "7k2m9qx4vt", "remove_mcp_server", "calculate", "done"]
