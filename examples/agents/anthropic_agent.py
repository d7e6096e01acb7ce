"""An agent on Anthropic's client: search tools for the question, give them to the model, call what it asks for, answer.

    python examples/agents/anthropic_agent.py "what is 15 % of 200?"

ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL choose the model server, MODEL the model.
"""

import os
import sys

from anthropic import Anthropic

from skillbus.client import ApiError, Skillbus
from skillbus.contracts.http import ToolReference

MODEL = os.environ.get("MODEL", "claude-sonnet-5-5")
TURNS = 8


def answer(question: str) -> str:
    """Return the model's answer."""
    model = Anthropic()
    messages = [{"role": "user", "content": question}]
    with Skillbus() as skillbus:
        found = skillbus.search_tools(query=question, format="anthropic")
        for _ in range(TURNS):
            reply = model.messages.create(model=MODEL, max_tokens=2_000, messages=messages, tools=list(found.tools))
            calls = [part for part in reply.content if part.type == "tool_use"]
            if not calls:
                return "".join(part.text for part in reply.content if part.type == "text")
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    **call_tool(skillbus, found.names[call.name], call.input),
                }
                for call in calls
            ]
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    raise RuntimeError(f"the model gave no answer in {TURNS} turns")


def call_tool(skillbus: Skillbus, tool: ToolReference, arguments: dict[str, object]) -> dict[str, object]:
    """Return the result of a tool as text, or the reason of its failure: the model can try something else."""
    try:
        called = skillbus.call_tool(tool.id, arguments, action=tool.action)
    except ApiError as error:
        return {"content": str(error), "is_error": True}
    return {"content": called.text, "is_error": called.is_error}


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:])))
