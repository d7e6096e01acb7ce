"""An agent of pydantic-ai, which gets the tools that fit its question and calls them through skillbus.

    python examples/agents/pydantic_ai_agent.py "what is 15 % of 200?"

OPENAI_API_KEY and OPENAI_BASE_URL choose the model server, MODEL the model: any that pydantic-ai knows.
"""

import asyncio
import os
import sys
from functools import partial

from pydantic_ai import Agent, ModelRetry, Tool

from skillbus.client import ApiError, AsyncSkillbus
from skillbus.contracts.http import ToolReference

MODEL = os.environ.get("MODEL", "openai-chat:gpt-5.4-mini")


async def answer(question: str) -> str:
    """Return the model's answer."""
    async with AsyncSkillbus() as skillbus:
        found = await skillbus.search_tools(query=question, format="mcp")
        tools = [
            Tool.from_schema(
                partial(call_tool, skillbus, found.names[schema["name"]]),
                schema["name"],
                schema["description"],
                schema["inputSchema"],
            )
            for schema in found.tools
        ]
        return (await Agent(MODEL, tools=tools).run(question)).output


async def call_tool(skillbus: AsyncSkillbus, tool: ToolReference, **arguments: object) -> str:
    """Return the result of a tool as text. A failure is told to the model, which can try something else."""
    try:
        called = await skillbus.call_tool(tool.id, arguments, action=tool.action)
    except ApiError as error:
        raise ModelRetry(str(error)) from error
    if called.is_error:
        raise ModelRetry(called.text)
    return called.text


if __name__ == "__main__":
    print(asyncio.run(answer(" ".join(sys.argv[1:]))))
