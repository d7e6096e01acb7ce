"""Runs a Python program that a model wrote, with its tools. Never imported by the service.

    skillbus_program.py <calls> <bytes> <frame bytes> <calls at once>

It is the script of the run, on the sandbox's own Python (3.8 or newer); the program is `/in/program.py`. Descriptor 3
is the tool channel, a socket that no other process inherits. A frame is four bytes of length, four bytes of number
(big-endian) and JSON. Requests are

    {"method": "call_tool" | "tool_schema", "id": …, "action": …, "arguments": {…}}

and replies `{"result": …}` or `{"error": {"code": …, "message": …}}`, with the number of their request.

Top-level `await` works. A program that does not name asyncio needs no event loop: a call then waits for its reply,
which saves the time that importing asyncio takes. The value of the last expression is left as JSON in a file that the
service takes as the answer; a value that JSON does not have, or that the service would refuse, is printed.
"""

from __future__ import annotations

import _ast
import json
import os
import socket
import sys
from collections import deque
from types import CodeType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Coroutine
    from typing import Any

PROGRAM = "/in/program.py"
ANSWER = "/work/out/.skillbus-answer.json"
CHANNEL = 3
ANSWER_BYTES = 256 * 1024
"""Largest answer. A larger one is printed."""
ANSWER_NESTING = 100
"""Deepest answer, `NESTING_MAX` of the service. A deeper one is printed."""
ONLY_AST, TOP_LEVEL_AWAIT = 0x0400, 0x2000
"""Flags of `compile`. Source: the module ast."""
COROUTINE = 0x80
"""Flag of code. Source: the module inspect."""
CHUNK = 256 * 1024


class ToolError(Exception):
    """A tool was not called: `code` and `message` say why. A tool that fails gives a result with `is_error`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Channel:
    """The program's end of the tool channel."""

    def __init__(self, calls: int, size: int, frame: int, at_once: int) -> None:
        self.socket = socket.socket(fileno=CHANNEL)
        os.set_inheritable(CHANNEL, False)
        os.register_at_fork(after_in_child=self.socket.close)
        self.calls, self.size, self.frame, self.at_once = calls, size, frame, at_once
        self.left_calls, self.left_bytes = calls, size
        self.number = 0
        self.received = bytearray()
        self.pending: dict[int, Future[bytes] | None] = {}
        """Requests without a reply, by number. Those that are not made in an event loop have no future."""
        self.queue: deque[Future[None]] = deque()
        """Requests that wait until there are fewer at once."""
        self.loop: AbstractEventLoop | None = None

    async def request(self, method: str, fields: dict[str, Any]) -> Any:
        """Send a request and return its result. Raises ToolError."""
        body = json.dumps({"method": method, **fields}, allow_nan=False).encode()
        asyncio = sys.modules.get("asyncio")
        loop = None if asyncio is None else asyncio._get_running_loop()  # noqa: SLF001 - the public one raises
        reply = json.loads(self.wait_for(self.send(body, None)) if loop is None else await self.ask_within(loop, body))
        if reply.get("error"):
            raise ToolError(reply["error"]["code"], reply["error"]["message"])
        return reply["result"]

    def send(self, body: bytes, future: Future[bytes] | None) -> int:
        """Send a frame and return its number. Raises ToolError at a limit."""
        if self.socket.fileno() < 0:
            raise ToolError("forbidden", "only the program itself calls tools, not processes that it forks")
        if len(body) > self.frame:
            raise ToolError("payload_too_large", f"the arguments have {len(body)} bytes, over {self.frame}")
        if self.left_calls < 1:
            raise ToolError("limit", f"a program may make {self.calls} tool calls")
        if self.left_bytes < len(body):
            raise ToolError("limit", f"all requests of a program may take {self.size} bytes")
        self.left_calls -= 1
        self.left_bytes -= len(body)
        self.number += 1
        self.pending[self.number] = future
        self.socket.sendall(len(body).to_bytes(4, "big") + self.number.to_bytes(4, "big") + body)
        return self.number

    def receive(self, *, wait: bool) -> dict[int, bytes]:
        """Return the replies that have come, waiting for some bytes if asked. Raises ConnectionError at the end."""
        try:
            chunk = self.socket.recv(CHUNK, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return {}
        if not chunk:
            raise ConnectionError("the tool channel is closed")
        self.received += chunk
        replies = {}
        while len(self.received) >= 8:
            size = int.from_bytes(self.received[:4], "big")
            if len(self.received) < 8 + size:
                break
            replies[int.from_bytes(self.received[4:8], "big")] = bytes(self.received[8 : 8 + size])
            del self.received[: 8 + size]
        return replies

    def wait_for(self, number: int) -> bytes:
        """Return the reply with a number, without an event loop."""
        while True:
            replies = self.receive(wait=True)
            self.settle(replies)
            if number in replies:
                return replies[number]

    async def ask_within(self, loop: AbstractEventLoop, body: bytes) -> bytes:
        """Send a request from an event loop and return the reply."""
        while len(self.pending) >= self.at_once:
            waiting = loop.create_future()
            self.queue.append(waiting)
            try:
                await waiting
            except BaseException:
                self.wake()  # it may have been woken before it was cancelled
                raise
        future = loop.create_future()
        try:
            self.enter_loop(loop)
            self.send(body, future)
        except BaseException:
            self.wake()
            raise
        reply: bytes = await future
        return reply

    def enter_loop(self, loop: AbstractEventLoop) -> None:
        """Read in an event loop. Raises ToolError if another one reads."""
        if self.loop is loop:
            return
        if self.loop is not None and not self.loop.is_closed():
            raise ToolError("forbidden", "another event loop waits for tool calls: use one at a time")
        loop.add_reader(self.socket.fileno(), self.on_readable)
        self.loop = loop

    def on_readable(self) -> None:
        """Hand out the replies that have come to the event loop."""
        try:
            self.settle(self.receive(wait=False))
        except ConnectionError as error:
            self.leave_loop()
            for future in self.pending.values():
                if future is not None and not future.done():
                    future.set_exception(ConnectionError(str(error)))
            self.pending.clear()
            self.wake()

    def settle(self, replies: dict[int, bytes]) -> None:
        """Note replies, and let those go on that wait for them or for their places."""
        for number, body in replies.items():
            future = self.pending.pop(number, None)
            if future is not None and not future.done():
                future.set_result(body)
        if not self.pending:
            self.leave_loop()
        self.wake()

    def wake(self) -> None:
        """Let as many requests go on as there are free places. One that then does not send has to call this."""
        free = self.at_once - len(self.pending)
        while free > 0 and self.queue:
            waiting = self.queue.popleft()
            if not waiting.done():
                waiting.set_result(None)
                free -= 1

    def leave_loop(self) -> None:
        """Stop reading in the event loop, if one reads."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.remove_reader(self.socket.fileno())
        self.loop = None


def make_functions(channel: Channel) -> dict[str, object]:
    """Return the names that a program finds defined."""

    async def call_tool(tool_id: str, action: str | None = None, /, **arguments: Any) -> Any:
        """Call a tool and return its result as a dict: content, structured, is_error, duration_ms, run_id and others.

        `action` is for skills that have several. Raises ToolError if the tool was not called.
        """
        return await channel.request("call_tool", {"id": tool_id, "action": action, "arguments": arguments})

    async def search_tools(query: str, **options: Any) -> Any:
        """Return the tools that fit a description, best first, as the tool `builtin:search_tools` finds them."""
        found = await call_tool("builtin:search_tools", query=query, **options)
        if found["is_error"]:
            raise ToolError("search_failed", str(found["content"]))
        return found["structured"]["results"]

    async def tool_schema(tool_id: str) -> Any:
        """Return id, name, description and parameters of a tool. Raises ToolError."""
        return await channel.request("tool_schema", {"id": tool_id})

    return {"call_tool": call_tool, "search_tools": search_tools, "tool_schema": tool_schema, "ToolError": ToolError}


def compile_program(source: bytes) -> CodeType:
    """Compile a program such that the value of its last expression gets the name `__answer__`."""
    tree: Any = compile(source, PROGRAM, "exec", ONLY_AST | TOP_LEVEL_AWAIT, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, _ast.Expr):
        name = _ast.Name("__answer__", _ast.Store())
        tree.body[-1] = _ast.Assign([name], last.value)
        for node in (name, tree.body[-1]):
            for place in last._attributes:  # noqa: SLF001 - documented, in spite of its name
                setattr(node, place, getattr(last, place))
    code: CodeType = compile(tree, PROGRAM, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def run_program(source: bytes, names: dict[str, object]) -> object:
    """Run a program in the module `__main__` and return the value of its last expression."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(names, __file__=PROGRAM, __builtins__=__builtins__, __annotations__={})
    code = compile_program(source)
    running = eval(code, main.__dict__)  # noqa: S307 - the purpose of this program
    if code.co_flags & COROUTINE:
        (run_in_loop if b"asyncio" in source else run_without_loop)(running)
    return main.__dict__.pop("__answer__", None)


def run_in_loop(program: Coroutine[Any, Any, None]) -> None:
    """Run a program that uses asyncio."""
    import asyncio  # noqa: PLC0415 - many programs do without it

    asyncio.run(program)


def run_without_loop(program: Coroutine[Any, Any, None]) -> None:
    """Run a program that awaits nothing but tools."""
    try:
        program.send(None)
    except StopIteration:
        return
    raise RuntimeError("the program awaits something other than a tool: write `import asyncio` at its top")


def leave_answer(value: object) -> None:
    """Leave the value of the last expression as the answer, or print it if it is no such JSON or too large."""
    if value is None:
        return
    if hasattr(value, "__await__"):
        raise TypeError("the value of the last expression has to be awaited: write `await` before it")
    try:
        written = json.dumps(value, allow_nan=False).encode()
        if len(written) <= ANSWER_BYTES:
            check_answer(json.loads(written))
    except (TypeError, ValueError, RecursionError):
        sys.stdout.write(f"{value!r}\n")
        return
    if len(written) > ANSWER_BYTES:
        sys.stdout.write(f"{written.decode()}\n")
        return
    with open(ANSWER, "wb") as file:  # noqa: PTH123 - pathlib costs more than all the rest
        file.write(written)


def check_answer(value: object) -> None:
    """Raise ValueError if the service would refuse a value: for a lone surrogate, or as nested too deep."""
    json.dumps(value, ensure_ascii=False).encode()
    level: list[Any] = [[value]]
    for _ in range(ANSWER_NESTING + 1):
        items = [item for one in level for item in (one.values() if isinstance(one, dict) else one)]
        level = [item for item in items if isinstance(item, (dict, list))]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {ANSWER_NESTING}")


def report_error(error: BaseException, report: Callable[..., object]) -> None:
    """Report an error as the interpreter does, without the frames above the program's own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != PROGRAM:
        trace = trace.tb_next
    report(type(error), error.with_traceback(trace), trace)


def main() -> None:
    """Run the program of this run. Exits with 1 if it raises."""
    channel = Channel(*map(int, sys.argv[1:]))
    with open(PROGRAM, "rb") as file:  # noqa: PTH123 - as above
        source = file.read()
    sys.argv = [PROGRAM]
    os.chdir("/work")
    try:
        leave_answer(run_program(source, make_functions(channel)))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        report_error(error, sys.excepthook)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
