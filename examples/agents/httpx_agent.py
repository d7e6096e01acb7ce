"""An agent without any library but httpx, on the HTTP APIs of skillbus and of a model server in OpenAI's format.

    SKILLBUS_API_KEY=… python examples/agents/httpx_agent.py "what is 15 % of 200?"

OPENAI_API_KEY and OPENAI_BASE_URL choose the model server, MODEL the model, SKILLBUS_URL the skillbus.
"""

import json
import os
import sys
from urllib.parse import quote

import httpx

MODEL = os.environ.get("MODEL", "gpt-5.4-mini")
MODEL_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
SKILLBUS_URL = os.environ.get("SKILLBUS_URL", "http://127.0.0.1:8080")
TURNS = 8


def open_api(url: str, key_variable: str) -> httpx.Client:
    """Return a client of a server that takes a key."""
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {os.environ[key_variable]}"}, timeout=120)


def answer(question: str) -> str:
    """Return the model's answer."""
    messages = [{"role": "user", "content": question}]
    with open_api(SKILLBUS_URL, "SKILLBUS_API_KEY") as skillbus, open_api(MODEL_URL, "OPENAI_API_KEY") as model:
        found = (
            skillbus.post("/api/tools/search", json={"query": question, "format": "openai"}).raise_for_status().json()
        )
        for _ in range(TURNS):
            body = {"model": MODEL, "messages": messages, **({"tools": found["tools"]} if found["tools"] else {})}
            reply = model.post("chat/completions", json=body).raise_for_status().json()
            message = reply["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                result = call_tool(skillbus, found["names"][call["function"]["name"]], call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    raise RuntimeError(f"the model gave no answer in {TURNS} turns")


def call_tool(skillbus: httpx.Client, tool: dict[str, str], arguments: str) -> str:
    """Return the result of a tool as JSON. A problem document is one too: the model can try something else."""
    body = {"arguments": json.loads(arguments), "action": tool.get("action")}
    return skillbus.post(f"/api/tools/{quote(tool['id'], safe='')}/call", json=body).text


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:])))
