"""`skillbus chat`."""

import sys
from typing import Annotated

import typer

from skillbus.cli.completion import complete_chat_model, complete_tool
from skillbus.cli.input_files import STDIN, decode_text, read_input
from skillbus.cli.options import build_request
from skillbus.cli.session import Session, remote_command
from skillbus.contracts.agent.chat import AUTO_MODEL

Question = Annotated[
    str | None,
    typer.Argument(
        metavar="QUESTION",
        help="What you ask; - for standard input. Without it: a conversation, or what is piped in.",
        show_default=False,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Chat model: its name, or PROVIDER/NAME. `auto` is the default one with its fallbacks.",
        autocompletion=complete_chat_model,
    ),
]
Knowledge = Annotated[
    str | None, typer.Option("--knowledge", metavar="SCOPE", help="Give knowledge of this scope; '*' for any.")
]
Budget = Annotated[
    int | None, typer.Option("--budget", min=1, max=100_000, metavar="TOKENS", help="Upper bound of the knowledge.")
]
Tools = Annotated[
    list[str] | None,
    typer.Option("--tool", metavar="ID", help="Tool to show in each step. Repeatable.", autocompletion=complete_tool),
]
NoTools = Annotated[bool, typer.Option("--no-tools", help="Show no tools but those of --tool.")]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="Instructions for the model.")]


@remote_command(
    "skillbus chat 'What is 15% of 80?'\n"
    "  $ skillbus chat 'Which header do live rooms need?' --knowledge '/api/live/*'\n"
    "  $ skillbus chat - --no-tools < question.txt",
    aliases={"--scope": "--knowledge"},
)
async def chat_with_model(
    session: Session,
    question: Question = None,
    *,
    model: Model = AUTO_MODEL,
    knowledge: Knowledge = None,
    budget: Budget = None,
    tools: Tools = None,
    no_tools: NoTools = False,
    system: System = None,
) -> None:
    """Chat with a model that finds and calls tools by itself.

    The answer goes to stdout as it comes; calls of tools, and what the turn took, to stderr. Without QUESTION on a
    terminal it is a conversation: /new begins again, /quit or Ctrl-D ends it, Ctrl-C cancels a turn.
    """
    if budget is not None and knowledge is None:
        raise typer.BadParameter("it bounds the knowledge of --knowledge, which is not given", param_hint="--budget")
    # Slow to import, and help pages need not wait for them.
    from skillbus.cli.chat.approvals import can_ask  # noqa: PLC0415
    from skillbus.cli.chat.conversation import hold_conversation  # noqa: PLC0415
    from skillbus.cli.chat.prompt import read_question  # noqa: PLC0415
    from skillbus.cli.chat.turn import ChatSettings, answer_once  # noqa: PLC0415
    from skillbus.contracts.chat_http import SkillbusChatOptions  # noqa: PLC0415

    context = None if knowledge is None else {"scope": knowledge} | ({} if budget is None else {"budget": budget})
    fields: dict[str, object] = {"knowledge": context, "tools": tools, "disclose": False if no_tools else None}
    settings = ChatSettings(model, system, build_request(SkillbusChatOptions, fields), can_ask(session))
    if question is None and sys.stdin.isatty():
        if session.output.as_json:
            raise typer.BadParameter("a conversation is not one document: give a QUESTION", param_hint="--json")
        await hold_conversation(session, settings, read_question)
        return
    text = question if question not in {None, STDIN} else decode_text(read_input(STDIN), "standard input")
    if not text or not text.strip():
        raise typer.BadParameter("the question is empty", param_hint="QUESTION")
    await answer_once(session, settings, text)
