"""Builder of access logs with known rules, and with the things that look like rules and are none."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from skillbus.learning.traffic.access_log import read_access_log
from skillbus.learning.traffic.learning import TrafficFindings, learn_from_calls
from skillbus.learning.traffic.settings import TrafficSettings

OPTIONAL = ("x-request-id", "x-channel", "accept-language")
CANARY = "tk.0f8e7d6c5b4a39281706f5e4d3c2b1a0"


@dataclass(frozen=True)
class SampleEndpoint:
    """Endpoint that refuses calls without its headers and parameters."""

    method: str
    path: Callable[[Random], str]
    headers: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    message: str = "missing required header {name}"
    status: int = 400
    host: str = "api.example.com"
    together: dict[str, str] = field(default_factory=dict)
    """Headers that are sent exactly when another one is."""


def build_access_log(endpoints: Sequence[SampleEndpoint], *, calls: int = 1_500, seed: int = 7) -> list[str]:
    """Return the lines of an access log: 8 % of the calls lack a required name, and 8 % fail for other reasons."""
    random = Random(seed)  # noqa: S311 - test data
    return [json.dumps(_make_call(random.choice(endpoints), random), ensure_ascii=False) for _ in range(calls)]


def _make_call(endpoint: SampleEndpoint, random: Random) -> dict[str, object]:
    absent = (
        random.choice((*endpoint.headers, *endpoint.parameters))
        if random.random() < 0.08 and (endpoint.headers or endpoint.parameters)
        else ""
    )
    headers = {name: CANARY for name in endpoint.headers if name != absent}
    headers |= {name: "v" for name in OPTIONAL if random.random() < 0.6}
    headers |= {name: "v" for name, other in endpoint.together.items() if other in headers}
    query = "&".join(f"{name}=1" for name in endpoint.parameters if name != absent)
    status, message = 200, "ok"
    if absent:
        status, message = endpoint.status, endpoint.message.format(name=absent)
    elif random.random() < 0.08:
        status, message = random.choice(
            [
                (429, "too many requests for x-channel"),
                (500, "internal error"),
                (401, "token expired"),
                (404, "no such thing"),
            ]
        )
    return {
        "method": endpoint.method,
        "host": endpoint.host,
        "path": endpoint.path(random) + (f"?{query}" if query else ""),
        "headers": {**headers, "cookie": f"sid={CANARY}; u=jane.doe@example.com"},
        "status": status,
        "body": {"code": status * 100, "msg": message},
    }


def learn_rules(lines: Sequence[str]) -> TrafficFindings:
    """Return what the lines of an access log show."""
    return learn_from_calls("access.jsonl", read_access_log(lines), TrafficSettings())


def list_rules(findings: TrafficFindings) -> set[tuple[str, str, str]]:
    """Return the method, path and name of each rule."""
    rules = [item.rule for item in findings.items if item.rule]
    return {(rule.method, rule.path, str(rule.header or rule.parameter)) for rule in rules}
