"""An agent on OpenAI's client: search tools for the question, give them to the model, call what it asks for, answer.

    python examples/agents/openai_agent.py "what is 15 % of 200?"

OPENAI_API_KEY and OPENAI_BASE_URL choose the model server, MODEL the model.
"""

import json
import os
import sys

from openai import OpenAI

from skillbus.client import ApiError, Skillbus
from skillbus.contracts.http import ToolReference

MODEL = os.environ.get("MODEL", "gpt-5.4-mini")
TURNS = 8


def answer(question: str) -> str:
    """Return the model's answer."""
    model = OpenAI()
    messages = [{"role": "user", "content": question}]
    with Skillbus() as skillbus:
        found = skillbus.search_tools(query=question, format="openai")
        offered = {"tools": list(found.tools)} if found.tools else {}
        for _ in range(TURNS):
            message = model.chat.completions.create(model=MODEL, messages=messages, **offered).choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                result = call_tool(skillbus, found.names[call.function.name], call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise RuntimeError(f"the model gave no answer in {TURNS} turns")


def call_tool(skillbus: Skillbus, tool: ToolReference, arguments: str) -> str:
    """Return the result of a tool as text, or the reason of its failure: the model can try something else."""
    try:
        return skillbus.call_tool(tool.id, json.loads(arguments), action=tool.action).text
    except (ApiError, ValueError) as error:
        return f"error: {error}"


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:])))
