"""View of a turn: its text on stdout, and its calls and summary as dim lines on stderr."""

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue
from rich.text import Text

from skillbus.cli.output import CommandOutput, clean_line, clean_text, format_number
from skillbus.contracts.agent.chat import CalledTool, DisclosureUsage, FinishReason, TurnLimit
from skillbus.contracts.chat_http import ChatChunk, ChatExtension, ChatUsage

_LINE_CELLS: Final = 240
"""Longest line about a call where no terminal bounds it."""
_ARGUMENTS_PART: Final = 3
"""An argument takes at most this part of a line."""
_INDENT: Final = "  "
_LIMITS: Final[Mapping[TurnLimit, str]] = {
    TurnLimit.STEPS: "the limit of steps",
    TurnLimit.CALLS: "the limit of calls",
    TurnLimit.EQUAL_CALLS: "the limit of equal calls",
    TurnLimit.TIME: "the time limit",
    TurnLimit.TOKENS: "the limit of tokens",
}
_CUTS: Final[Mapping[FinishReason, str]] = {
    FinishReason.LENGTH: "the answer is cut at the model's limit of tokens",
    FinishReason.CONTENT_FILTER: "the provider's filter ended the answer",
}


class TurnView:
    """Shows the chunks of one turn, and keeps its text."""

    def __init__(self, output: CommandOutput) -> None:
        self.text = ""
        """Text of the answer so far."""
        self._output = output
        self._shares_screen = output.out.is_terminal and output.err.is_terminal
        self._begins_line = True
        self._left_line = False
        self._ended = ChatExtension()
        self._finish: FinishReason | None = None
        self._usage: ChatUsage | None = None

    def show_chunk(self, chunk: ChatChunk) -> None:
        """Show what a chunk adds."""
        if chunk.text:
            self._show_text(chunk.text)
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices:
            self._finish = choice.finish_reason or self._finish
        if chunk.skillbus is None:
            return
        call = chunk.skillbus.call
        if chunk.skillbus.kind is None:
            self._ended = chunk.skillbus
        elif chunk.skillbus.kind == "calling" and call is not None:
            self._show_line(format_calling(call, self._width), "dim")
        elif chunk.skillbus.kind == "approval_required":
            self.end_line()  # somebody is asked on the next line
        elif chunk.skillbus.kind == "called" and call is not None and call.program_call_id is not None:
            self._show_line(format_program_call(call, self._width), "dim yellow" if call.is_error else "dim")
        elif chunk.skillbus.kind == "called" and call is not None:
            self._show_line(format_called(call, self._width), "dim yellow" if call.is_error else "dim")

    def end_line(self) -> None:
        """End a line of text that has begun."""
        if not self._begins_line:
            self._output.write_text("\n")
            self._begins_line = True

    def show_end(self) -> None:
        """Show what the turn took, and what is wrong with its answer."""
        self.end_line()
        self._output.print_note(format_summary(self._ended, self._usage))
        if self._finish is not None and self._finish in _CUTS:
            self._output.print_note(_CUTS[self._finish], "yellow")

    @property
    def _width(self) -> int:
        return min(self._output.err.width, _LINE_CELLS)

    def _show_text(self, text: str) -> None:
        self.text += text
        shown = clean_text(text) if self._output.out.is_terminal else text
        if self._left_line:
            # The line about a call stands where the blank lines between two steps would.
            shown = shown.lstrip("\n")
        if not shown:
            return
        self._left_line = False
        self._output.write_text(shown)
        self._begins_line = shown.endswith("\n")

    def _show_line(self, line: str, style: str) -> None:
        if self._shares_screen:
            self.end_line()
            self._left_line = True
        self._output.print_note(line, style)


def format_calling(call: CalledTool, width: int) -> str:
    """Return the line about a call that begins."""
    return _shorten_line(f"calls {_format_call(call, width)}", width)


def format_called(call: CalledTool, width: int) -> str:
    """Return the line about a call that is done: its time, and the first line of its result or error."""
    marked = " (looks like instructions)" if call.findings else ""
    made = f" with {format_number(call.program_calls, 'call')}" if call.program_calls else ""
    return _shorten_line(f"{call.id}{_format_outcome(call)}{made}{marked}: {_find_first_line(call)}", width)


def format_program_call(call: CalledTool, width: int) -> str:
    """Return the line about a call that a program has made, indented below the line about the program."""
    told = f"{_format_call(call, width)}{_format_outcome(call)}: {_find_first_line(call)}"
    return f"{_INDENT}{_shorten_line(told, width - len(_INDENT))}"


def format_summary(ended: ChatExtension, usage: ChatUsage | None) -> str:
    """Return the line at the end of a turn."""
    steps = format_number(ended.steps or 0, "step")
    parts = [f"{steps}, {format_number(ended.tool_calls or 0, 'tool call')}"]
    if usage is not None:
        counts = f"{usage.prompt_tokens:,} in, {usage.completion_tokens:,} out"
        parts[0] += f", {usage.total_tokens:,} tokens ({counts})"
    if ended.disclosure is not None:
        parts.append(_format_disclosure(ended.disclosure))
    if ended.limit is not None:
        parts.append(f"ended at {_LIMITS[ended.limit]}")
    if ended.unapproved:
        parts.append(f"not called without an approval: {', '.join(ended.unapproved)}")
    if unknown := [citation.label for citation in ended.citations if citation.item_id is None]:
        parts.append(f"cited but not given: {', '.join(unknown)}")
    if ended.model:
        parts.append(f"{ended.provider}/{ended.model}" if ended.provider else ended.model)
    return clean_line("; ".join(parts))


def _format_call(call: CalledTool, width: int) -> str:
    action = f" {call.action}" if call.action else ""
    return f"{call.id}{action}" + "".join(
        f" {name}={_shorten_value(value, width)}" for name, value in call.arguments.items()
    )


def _format_outcome(call: CalledTool) -> str:
    return f"{' failed' if call.is_error else ''} in {call.duration_ms:.0f} ms"


def _find_first_line(call: CalledTool) -> str:
    return next((line for line in clean_text(call.text).splitlines() if line.strip()), "no text")


def _format_disclosure(usage: DisclosureUsage) -> str:
    if usage.all_tools is None or not usage.all_tokens:
        return f"{format_number(usage.shown_tools, 'tool')} shown"
    saved = max(0, usage.all_tokens - usage.shown_tokens)
    part = f"{saved:,} tokens saved ({saved / usage.all_tokens:.0%} of all definitions)"
    return f"{usage.shown_tools:,} of {usage.all_tools:,} tools shown, {part}"


def _shorten_value(value: JsonValue, width: int) -> str:
    text = json.dumps(value, ensure_ascii=False)
    most = max(20, width // _ARGUMENTS_PART)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _shorten_line(line: str, width: int) -> str:
    text = Text(clean_line(line))
    text.truncate(width, overflow="ellipsis")
    return text.plain
