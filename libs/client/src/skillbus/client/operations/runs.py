"""Operations on runs of skills."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import httpx
from pydantic import BaseModel

from skillbus.client.call import SentParts, build_error, build_unexpected, parse_reply
from skillbus.client.operation import LineParser, ReplyParser, custom_operation, json_operation, stream_operation
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.http import RunBegun, RunPrinted, RunReply
from skillbus.contracts.message import Empty
from skillbus.contracts.sandbox.run_history import ListRuns, RunCancelled, RunRecord, RunSelector, RunsListed
from skillbus.contracts.sandbox.skill_runs import SandboxLimits

RunPart = RunBegun | RunPrinted | RunReply
"""Part of a followed run."""
ReplyT = TypeVar("ReplyT", bound=BaseModel)
_RUN: Final = "/api/runs/{run_id}"
_RUN_SKILL: Final = "/api/skills/{name}/run"
SILENCE_S: Final = 60.0
"""Longest pause of a followed run: the server sends a sign of life every 15 s."""
_RUN_S: Final = 90.0
"""Time to wait for a run without `timeout_s`: longer than the sandbox's own limit, which gives a proper reply."""
_MARGIN_S: Final = 30.0


def _prepare_run(  # noqa: PLR0913 (each is a parameter of the operation)
    name: str,
    *,
    action: str | None = None,
    args: Mapping[str, object] | None = None,
    argv: Sequence[str] | None = None,
    stdin: str | None = None,
    files: Mapping[str, bytes] | None = None,
    timeout_s: float | None = None,
    run_id: str | None = None,
    project: str | None = None,
) -> PreparedRequest:
    fields: dict[str, object] = {"action": action, "args": args, "argv": argv, "stdin": stdin, "timeout_s": timeout_s}
    if files:
        fields["files"] = {file: b64encode(content).decode() for file, content in files.items()}
    given = {key: value for key, value in {**fields, "run_id": run_id}.items() if value is not None}
    # The body is sent in any case: the route needs one.
    return PreparedRequest(
        {"name": name, "project": project},
        SentParts(json=json.loads(json.dumps(given, allow_nan=False))),
        timeout_s=max(_RUN_S, (timeout_s or 0) + _MARGIN_S),
    )


def _prepare_artifact(run_id: str, name: str, *, project: str | None = None) -> PreparedRequest:
    return PreparedRequest({"run_id": run_id, "name": name, "project": project})


def _prepare_watch(run_id: str, *, project: str | None = None) -> PreparedRequest:
    return PreparedRequest({"run_id": run_id, "project": project})


def read_bytes(response: httpx.Response) -> bytes:
    """Return the body of a reply."""
    return response.content


class EventParser(LineParser[RunBegun | RunPrinted | ReplyT]):
    """Parser of the Server-Sent Events of a followed run or call, which end with a `reply`."""

    def __init__(self, reply: type[ReplyT], response: httpx.Response) -> None:
        self._reply = reply
        self._response = response
        self._event = ""
        self._is_complete = False

    def feed_line(self, line: str) -> RunBegun | RunPrinted | ReplyT | None:
        """Return the event that a line completes, or None. Raises ApiError if the run has no reply."""
        name, _, value = line.partition(": ")
        if name == "event":
            self._event = value
        if name != "data":
            return None
        match self._event:
            case "begun":
                return parse_reply(RunBegun, value, self._response)
            case "output":
                return parse_reply(RunPrinted, value, self._response)
            case "reply":
                self._is_complete = True
                return parse_reply(self._reply, value, self._response)
            case "error":
                raise build_error(value.encode(), self._response)
        return None

    def finish(self) -> None:
        """Raise UnexpectedReplyError if the stream had no reply."""
        if not self._is_complete:
            raise build_unexpected(self._response, "it ended without a reply")


class RunEventParser(EventParser[RunReply]):
    """Parser of the events of a followed run."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(RunReply, response)

    def feed_line(self, line: str) -> RunPart | None:
        """Return the event that a line completes, or None. Raises ApiError if the run has no reply."""
        return super().feed_line(line)


class WatchedRunParser(LineParser[RunRecord | RunPrinted]):
    """Parser of the Server-Sent Events of a run that is watched."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._event = ""

    def feed_line(self, line: str) -> RunRecord | RunPrinted | None:
        """Return what a line holds, or None. Raises ApiError if the sandbox is away."""
        name, _, value = line.partition(": ")
        if name == "event":
            self._event = value
        if name != "data":
            return None
        match self._event:
            case "output":
                return parse_reply(RunPrinted, value, self._response)
            case "error":
                raise build_error(value.encode(), self._response)
        return parse_reply(RunRecord, value, self._response)

    def finish(self) -> None:
        """Raise UnexpectedReplyError if the stream ended before the run."""
        if self._event != "ended":
            raise build_unexpected(self._response, "it ended before the run")


class RunOperations:
    """Runs of skills in the sandbox."""

    run_skill = custom_operation(
        HttpRoute("POST", _RUN_SKILL, in_query=("project",)), _prepare_run, ReplyParser(RunReply)
    )
    """Run an action of a skill in the sandbox. A failed run is a normal reply: see `status`."""
    follow_skill = stream_operation(
        HttpRoute("POST", _RUN_SKILL, in_query=("project",), fixed_query={"stream": "true"}, timeout_s=SILENCE_S),
        _prepare_run,
        RunEventParser,
    )
    """Run an action of a skill and yield `RunBegun`, each `RunPrinted`, and last the `RunReply`.

    Leaving the context before the end cancels the run.
    """
    list_runs = json_operation("GET", "/api/runs", ListRuns, RunsListed)
    """List the runs of the last day, newest first. `next` is the `after` of the next page."""
    get_run = json_operation("GET", _RUN, RunSelector, RunRecord)
    """Return the record of a run: its state, limits, usage and artifacts."""
    watch_run = stream_operation(
        HttpRoute("GET", f"{_RUN}/events", timeout_s=SILENCE_S), _prepare_watch, WatchedRunParser
    )
    """Yield the `RunRecord` of a run that anybody started, each `RunPrinted` from now on, and last its record again.

    Only a run that was requested as a stream has output. Leaving the context does not end the run.
    """
    cancel_run = json_operation("DELETE", _RUN, RunSelector, RunCancelled, is_idempotent=True)
    """Cancel a run. Its caller gets the output so far, and its record stays."""
    get_artifact = custom_operation(HttpRoute("GET", f"{_RUN}/artifacts/{{name}}"), _prepare_artifact, read_bytes)
    """Return the bytes of a file that a run left, for one day."""
    get_limits = json_operation("GET", "/api/limits", Empty, SandboxLimits)
    """Return the limits, the isolation level and the current load of the sandbox."""
