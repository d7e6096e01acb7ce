"""A model server over HTTP that follows a script: it calls one of the tools that it is given, then says the result.

It speaks OpenAI's chat completions and Anthropic's messages.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Document = dict[str, Any]


@dataclass
class ScriptedModel:
    """Script of the server, and what it was sent."""

    tool: str
    """Name of the tool that it calls."""
    arguments: Document
    url: str = ""
    requests: list[Document] = field(default_factory=list)

    def answer_completion(self, request: Document) -> Document:
        """Return a completion: a call of the tool, or the answer after the result of the tool."""
        last = request["messages"][-1]
        message: Document = {"role": "assistant"}
        if last["role"] == "tool":
            message["content"] = f"The tool says: {last['content']}"
        else:
            names = [tool["function"]["name"] for tool in request["tools"]]
            function = {"name": self._choose(names), "arguments": json.dumps(self.arguments)}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        finish = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}

    def answer_message(self, request: Document) -> Document:
        """Return a message: a call of the tool, or the answer after the result of the tool."""
        last = request["messages"][-1]["content"]
        if isinstance(last, list):
            part: Document = {"type": "text", "text": f"The tool says: {last[0]['content']}"}
        else:
            name = self._choose([tool["name"] for tool in request["tools"]])
            part = {"type": "tool_use", "id": "call_1", "name": name, "input": self.arguments}
        usage = {"input_tokens": 1, "output_tokens": 1}
        end = {"stop_reason": "tool_use" if part["type"] == "tool_use" else "end_turn", "stop_sequence": None}
        return {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [part],
            "usage": usage,
            **end,
        }

    def _choose(self, names: list[str]) -> str:
        return self.tool if self.tool in names else f"no {self.tool} among {names}"


@contextmanager
def serve_model(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """Serve a model on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.requests.append(request)
            is_message = self.path.endswith("/messages")
            reply = json.dumps(model.answer_message(request) if is_message else model.answer_completion(request))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.encode())))
            self.end_headers()
            self.wfile.write(reply.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield model
        finally:
            server.shutdown()
            thread.join(5)
