"""The answer of a tool, cut so that it fits into a message."""

import base64
import binascii
import mimetypes
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.contracts.agent.tool_calls import ToolCalled
from skillbus.contracts.sandbox.skill_runs import RunStatus, SkillRan

TEXT_BYTES: Final = 256 * 1024
"""Largest text part as JSON, so that one text leaves room for the parts after it."""
CONTENT_BYTES: Final = 640 * 1024
STRUCTURED_BYTES: Final = 192 * 1024
"""Size of each part as JSON; together they leave room in the 1 MiB that NATS accepts."""
FILES_MAX: Final = 64
"""Most files of one answer that are kept."""
_SCHEME: Final = "skillbus:"
_MIME_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}")
_ANY_BYTES: Final = "application/octet-stream"
_NOT_IN_NAMES: Final = re.compile(r"[^\w.-]+")
_NAME_CHARACTERS: Final = 100


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call."""

    text: str = ""
    """Text of an answer without other parts; the reason if the tool failed."""
    content: tuple[JsonValue, ...] = ()
    """All parts as MCP defines them; empty if `text` and `structured` are complete."""
    structured: JsonValue = None
    is_error: bool = False
    truncated: bool = False
    """True if something was left out because of its size."""

    @property
    def parts(self) -> tuple[JsonValue, ...]:
        """All parts, also of an answer that is one text."""
        return self.content or ((make_text_part(self.text),) if self.text else ())


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """An image, a sound or another file in an answer."""

    name: str
    mime_type: str
    data: bytes

    def make_link(self, run_id: str) -> JsonValue:
        """Return the part that stands for the file once it is stored as a file of the call."""
        return _make_link(f"skillbus://calls/{run_id}/{self.name}", self.name, self.mime_type, len(self.data))


def make_text_part(text: str) -> JsonValue:
    return {"type": "text", "text": text}


def split_files(content: Sequence[JsonValue]) -> tuple[list[JsonValue | AnswerFile], bool]:
    """Return the parts with their files decoded; and True if a part was left out.

    Links to files of skillbus are left out too: a server could guess them, or repeat those of another call.
    """
    parts, files = list[JsonValue | AnswerFile](), 0
    for part in content:
        try:
            file = _decode_file(part, files + 1)
        except ValueError:
            continue
        if file is not None:
            files += 1
            if files <= FILES_MAX:
                parts.append(file)
        elif not _is_own_link(part):
            parts.append(part)
    return parts, len(parts) < len(content)


def bound_answer(content: Sequence[JsonValue], structured: JsonValue = None, *, is_error: bool = False) -> ToolAnswer:
    """Make the answer from MCP's `content` and `structuredContent`. Long texts are cut, other large parts left out."""
    kept, left_bytes, cut = list[JsonValue](), CONTENT_BYTES, False
    for part in content:
        bounded = _cut_part(part, min(left_bytes, TEXT_BYTES))
        size = len(to_json(bounded))
        cut = cut or bounded is not part or size > left_bytes
        if size <= left_bytes:
            left_bytes -= size
            kept.append(bounded)
    fits = len(to_json(structured)) <= STRUCTURED_BYTES
    return ToolAnswer(
        content=tuple(kept), structured=structured if fits else None, is_error=is_error, truncated=cut or not fits
    )


def make_skill_answer(ran: SkillRan, stdout: bytes, stderr: bytes) -> ToolAnswer:
    """Make the answer from the run of a skill and the beginnings of its output. Its files become links."""
    is_error = ran.status is not RunStatus.OK
    parts = [make_text_part(stdout.decode("utf-8", "replace"))] if stdout else []
    if is_error:
        code = "" if ran.exit_code is None else f" with exit code {ran.exit_code}"
        reason = ": ".join(filter(None, (f"{ran.status.value}{code}", ran.detail)))
        parts.append(make_text_part("\n".join(filter(None, (reason, stderr.decode("utf-8", "replace"))))))
    for artifact in ran.artifacts:
        kind = mimetypes.guess_type(artifact.name, strict=False)[0] or _ANY_BYTES
        uri = f"skillbus://runs/{ran.run_id}/{quote(artifact.name)}"
        parts.append(_make_link(uri, artifact.name, kind, artifact.content.size_bytes))
    answer = bound_answer(parts, ran.result, is_error=is_error)
    whole = len(stdout) == ran.stdout.size_bytes and (not is_error or len(stderr) == ran.stderr.size_bytes)
    return ToolAnswer(
        content=answer.content,
        structured=answer.structured,
        is_error=is_error,
        truncated=answer.truncated or ran.truncated or not whole,
    )


def make_program_answer(ran: SkillRan, stdout: bytes, stderr: bytes) -> ToolAnswer:
    """Make the answer from the run of a program: its output, the value of its last expression, links to its files."""
    answer = make_skill_answer(ran, stdout, stderr)
    if ran.result is None:
        return answer
    value = make_text_part(to_json(ran.result).decode())
    bounded = bound_answer((*answer.content, value), answer.structured, is_error=answer.is_error)
    return replace(bounded, truncated=answer.truncated or bounded.truncated)


def describe_call(tool_id: str, run_id: str, answer: ToolAnswer, started: float) -> ToolCalled:
    """Return the result of a call that began at `started`, a value of `time.perf_counter`."""
    return ToolCalled(
        id=tool_id,
        run_id=run_id,
        is_error=answer.is_error,
        content=answer.parts,
        structured=answer.structured,
        truncated=answer.truncated,
        duration_ms=(time.perf_counter() - started) * 1000,
    )


def cut_text(text: str, max_bytes: int) -> str:
    """Cut the text to about the longest beginning that has at most `max_bytes` as JSON."""
    while (size := len(to_json(text))) > max_bytes and text:
        text = text[: min(len(text) - 1, len(text) * max_bytes // size)]
    return text


def _cut_part(part: JsonValue, max_bytes: int) -> JsonValue:
    """Return the part, a text part with a shorter text if it is larger than `max_bytes`."""
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(text := part.get("text"), str):
        return part
    if len(to_json(part)) <= max_bytes:
        return part
    around = len(to_json({**part, "text": ""}))
    return {**part, "text": cut_text(text, max(max_bytes - around, 0))}


def _make_link(uri: str, name: str, mime_type: str, size: int) -> JsonValue:
    return {"type": "resource_link", "uri": uri, "name": name, "mimeType": mime_type, "size": size}


def _is_own_link(part: JsonValue) -> bool:
    uri = part.get("uri") if isinstance(part, dict) else None
    return isinstance(uri, str) and uri.strip().lower().startswith(_SCHEME)


def _decode_file(part: JsonValue, number: int) -> AnswerFile | None:
    """Return the file that a part holds, or None. Raises ValueError if it is damaged."""
    held = part
    if isinstance(part, dict) and part.get("type") == "resource":
        held = part.get("resource")
    if not isinstance(part, dict) or not isinstance(held, dict):
        return None
    label, name = str(part.get("type")), ""
    if label in {"image", "audio"}:
        data = held.get("data")
    else:
        data = held.get("blob") if label == "resource" else None
        name = unquote(urlsplit(str(held.get("uri", ""))).path).rsplit("/", 1)[-1]
    if not isinstance(data, str):
        return None
    mime_type = held.get("mimeType")
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError("the part is not base64") from error
    kind = mime_type if isinstance(mime_type, str) and _MIME_TYPE.fullmatch(mime_type) else _ANY_BYTES
    stem = _NOT_IN_NAMES.sub("_", name).strip("._")[-_NAME_CHARACTERS:]
    name = f"{number}-{stem}" if stem else f"{label}-{number}{mimetypes.guess_extension(kind) or ''}"
    return AnswerFile(name, kind, decoded)
