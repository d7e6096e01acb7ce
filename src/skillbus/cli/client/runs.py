"""Client for runs: started, followed, cancelled and read afterwards."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from skillbus.cli.client.http_api import RUNS, SKILLS, build_strange_reply, join_path, parse_problem, parse_reply
from skillbus.contracts.http import RunPrinted, RunReply
from skillbus.contracts.sandbox.run_history import RunCancelled, RunRecord, RunsListed

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_PAGE_SIZE: Final = 200
_RUN_S: Final = 90.0
"""Seconds to wait for a run without a timeout: longer than the sandbox's own limit, which gives a proper reply."""
_SILENCE_S: Final = 60.0
"""Longest pause while a run is followed: the server sends a sign of life every 15 s."""

JsonObject = dict[str, JsonValue]
PrintOutput = Callable[[str, str], None]
"""Receives a stream, `stdout` or `stderr`, and a text printed there."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A run to request. `files` holds contents by base name."""

    name: str
    action: str | None = None
    args: JsonObject | None = None
    argv: tuple[str, ...] | None = None
    stdin: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    timeout_s: float | None = None
    run_id: str | None = None

    @property
    def path(self) -> str:
        return join_path(SKILLS, self.name, "run")

    @property
    def body(self) -> dict[str, object]:
        members: dict[str, object] = {
            "action": self.action,
            "args": self.args,
            "argv": self.argv,
            "stdin": self.stdin,
            "timeout_s": self.timeout_s,
            "files": {name: b64encode(content).decode() for name, content in self.files.items()} or None,
            "run_id": self.run_id,
        }
        return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RunsClient:
    """Each method is one request, except `list_runs`."""

    connection: ApiConnection

    async def run_skill(self, order: RunOrder) -> RunReply:
        """Run a skill and wait for its end."""
        wait_s = max(_RUN_S, (order.timeout_s or 0) + 30)
        params = self.connection.scope
        return await self.connection.request(
            RunReply, "POST", order.path, params=params, json=order.body, wait_s=wait_s
        )

    async def follow_run(self, order: RunOrder, print_output: PrintOutput) -> RunReply:
        """Run a skill, pass on what it prints as it arrives, and return the reply at its end."""
        params = {**self.connection.scope, "stream": "true"}
        async with self.connection.stream(
            "POST", order.path, params=params, json=order.body, silence_s=_SILENCE_S
        ) as response:
            event = ""
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data" and event == "output":
                    printed = parse_reply(RunPrinted, value, response)
                    print_output(printed.stream, printed.text)
                elif name == "data" and event == "error":
                    raise parse_problem(value.encode(), response)
                elif name == "data" and event == "reply":
                    return parse_reply(RunReply, value, response)
        raise build_strange_reply(response, "it ended without the reply of the run")

    async def cancel_run(self, run_id: str) -> RunCancelled:
        """Request the end of a run."""
        path = join_path(RUNS, run_id)
        return await self.connection.request(RunCancelled, "DELETE", path, params=self.connection.scope)

    async def get_run(self, run_id: str) -> RunRecord:
        return await self.connection.request(RunRecord, "GET", join_path(RUNS, run_id), params=self.connection.scope)

    async def list_runs(self, limit: int, filters: Mapping[str, str]) -> tuple[RunRecord, ...]:
        """Return the newest `limit` runs. `filters` may have `skill` and `state`."""
        pages = await self.connection.list_pages(
            RunsListed, RUNS, filters, lambda page: (len(page.runs), page.next), page_size=_PAGE_SIZE, limit=limit
        )
        return tuple(run for page in pages for run in page.runs)

    async def fetch_artifact(self, run_id: str, name: str) -> bytes:
        """Return the content of a file that a run left."""
        return (await self.connection.send("GET", join_path(RUNS, run_id, "artifacts", *name.split("/")))).content
