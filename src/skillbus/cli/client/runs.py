"""A typed client of runs: followed while they go on, ended, and looked at afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import httpx

from skillbus.cli.client.connection import exchange, opened, parsed, parsed_text, problem_in, strange
from skillbus.cli.client.replies import Printed, Ran
from skillbus.cli.client.skills import Client, RunOrder, run_request
from skillbus.contracts.sandbox.run_history import RunCancelled, RunRecord, RunsListed

_PAGE = 200
_SILENCE_S = 60.0
"""The server says that it is there every 15 s, whatever the run does."""
Hear = Callable[[str, str], None]
"""Is told a stream, `stdout` or `stderr`, and what was printed there."""


@dataclass(frozen=True, slots=True)
class RunsClient:
    """Over the connection of a `Client`; all methods raise the errors of `skillbus.cli.errors`."""

    client: Client

    async def follow(self, order: RunOrder, hear: Hear) -> Ran:
        """Run a skill, tell what it prints as it comes, and give its end."""
        path, body, _ = run_request(order)
        where = {**self._scope(), "stream": "true"}
        async with opened(self.client.http, "POST", path, params=where, json=body, wait_s=_SILENCE_S) as response:
            name = ""
            async for line in response.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    ran = _read(response, name, value, hear)
                    if ran is not None:
                        return ran
        raise strange(response, "it ended without the reply of the run")

    async def cancel(self, run_id: str) -> RunCancelled:
        """End a run."""
        response = await exchange(self.client.http, "DELETE", _path(run_id), params=self._scope())
        return parsed(RunCancelled, response)

    async def get(self, run_id: str) -> RunRecord:
        """What is remembered of a run."""
        return parsed(RunRecord, await exchange(self.client.http, "GET", _path(run_id), params=self._scope()))

    async def list(self, limit: int, only: Mapping[str, str]) -> tuple[RunRecord, ...]:
        """The newest runs, page after page, at most `limit`; `only` is of `skill` and `state`."""
        found: list[RunRecord] = []
        after: str | None = None
        while True:
            where = {"limit": str(min(limit - len(found), _PAGE)), **only} | self._scope()
            where |= {"after": after} if after else {}
            page = parsed(RunsListed, await exchange(self.client.http, "GET", "/api/runs", params=where))
            found += page.runs
            if page.next is None or page.next == after or len(found) >= limit:
                return tuple(found)
            after = page.next

    async def artifact(self, run_id: str, name: str) -> bytes:
        """A file that a run left."""
        return (await exchange(self.client.http, "GET", f"{_path(run_id)}/artifacts/{quote(name)}")).content

    def _scope(self) -> dict[str, str]:
        return {"project": self.client.project} if self.client.project else {}


def _read(response: httpx.Response, name: str, data: str, hear: Hear) -> Ran | None:
    """The reply, if the event is that. Raises ProblemError when there will be none."""
    if name == "output":
        printed = parsed_text(Printed, data, response)
        hear(printed.stream, printed.text)
    elif name == "error":
        raise problem_in(data.encode(), response)
    return parsed_text(Ran, data, response) if name == "reply" else None


def _path(run_id: str) -> str:
    return f"/api/runs/{quote(run_id, safe='')}"
