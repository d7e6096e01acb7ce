"""`skillbus models`."""

from typing import Annotated, Literal

import typer

from skillbus.cli.models import view as model_tables
from skillbus.cli.models.switch_follower import follow_switch
from skillbus.cli.removal import confirm_removal
from skillbus.cli.session import Session
from skillbus.cli.text import plain_line

Runtime = Literal["use", "e5", "onnx", "fastembed"]
"""As `skillbus.contracts.registry.LocalRuntime`, which is slow to import; a test compares the two."""

ModelName = Annotated[str, typer.Argument(help="Its id, its name, or PROVIDER/NAME.")]
DefaultName = Annotated[
    str | None,
    typer.Argument(help="The new one: its id, its name, or PROVIDER/NAME.", show_default=False),
]
Provider = Annotated[str, typer.Argument(help="Whose model it is.")]
NewName = Annotated[str, typer.Argument(help="Its name there.")]
Dimensions = Annotated[int | None, typer.Option("--dimensions", help="Of its vectors; found out if absent.")]
RequestDimensions = Annotated[
    bool | None,
    typer.Option("--request-dimensions/--no-request-dimensions", help="Whether it is told how many to give."),
]
Priority = Annotated[int | None, typer.Option("--priority", help="Its place among the fallbacks, the lowest first.")]
ApiPath = Annotated[str | None, typer.Option("--api-path", help="Path below the provider's address.")]
MaxChars = Annotated[int | None, typer.Option("--max-chars", help="What follows in a longer text is not sent.")]
QueryPrefix = Annotated[str | None, typer.Option("--query-prefix", help="Put before each query.")]
DocumentPrefix = Annotated[str | None, typer.Option("--document-prefix", help="Put before each document.")]
RuntimeOption = Annotated[Runtime | None, typer.Option("--runtime", help="What computes a local model.")]
Path = Annotated[str | None, typer.Option("--path", help="Of a local ONNX model: its directory in the model folder.")]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it is tried.")]
Default = Annotated[bool, typer.Option("--default", help="Make it the default.")]
Follow = Annotated[
    bool, typer.Option("--follow/--no-follow", help="Wait until the indexes are searched with its vectors.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


async def list_models(session: Session) -> None:
    """List the embedding models: the default first, then in the order in which they are tried."""
    listed = await session.models.models()
    session.output.show(listed, lambda: model_tables.models(listed.models))


async def add(  # noqa: PLR0913 (one parameter an option)
    session: Session,
    provider: Provider,
    name: NewName,
    *,
    dimensions: Dimensions = None,
    request_dimensions: RequestDimensions = None,
    priority: Priority = None,
    api_path: ApiPath = None,
    max_chars: MaxChars = None,
    query_prefix: QueryPrefix = None,
    document_prefix: DocumentPrefix = None,
    runtime: RuntimeOption = None,
    path: Path = None,
    default: Default = False,
) -> None:
    """Add a model of a provider."""
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.embedder.registry import CreateModel  # noqa: PLC0415 (slow)

    fields: dict[str, object] = {"provider": provider, "name": name, "dimensions": dimensions, "priority": priority}
    fields |= {"request_dimensions": request_dimensions, "api_path": api_path, "max_chars": max_chars}
    fields |= {"query_prefix": query_prefix, "document_prefix": document_prefix, "runtime": runtime, "path": path}
    added = await session.models.add_model(request_of(CreateModel, fields | {"is_default": default or None}))
    session.output.show(added, lambda: model_tables.models((added,)))


async def update(  # noqa: PLR0913 (one parameter an option)
    session: Session,
    model: ModelName,
    *,
    dimensions: Dimensions = None,
    request_dimensions: RequestDimensions = None,
    priority: Priority = None,
    api_path: ApiPath = None,
    max_chars: MaxChars = None,
    query_prefix: QueryPrefix = None,
    document_prefix: DocumentPrefix = None,
    path: Path = None,
    enabled: Enabled = None,
) -> None:
    """Change a model; what is not named stays. An empty text clears: --query-prefix "".

    The next text is embedded by what it is then. Where its vectors become others, indexes are built anew.
    """
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.embedder.registry import UpdateModel  # noqa: PLC0415 (slow)

    fields: dict[str, object] = {"id": model, "dimensions": dimensions, "priority": priority, "enabled": enabled}
    fields |= {"request_dimensions": request_dimensions, "api_path": api_path, "max_chars": max_chars}
    fields |= {"query_prefix": query_prefix, "document_prefix": document_prefix, "path": path}
    updated = await session.models.update_model(request_of(UpdateModel, fields))
    session.output.show(updated, lambda: model_tables.models((updated,)))


async def remove(session: Session, model: ModelName, yes: Yes = False) -> None:
    """Remove a model that is not the default."""
    if not yes:
        confirm_removal([model], as_json=session.output.as_json)
    await session.models.remove_model(model)
    session.output.show({"name": model, "outcome": "removed"}, lambda: f"{plain_line(model)}: removed")


async def default(session: Session, model: DefaultName = None, follow: Follow = True) -> None:
    """Show the default model, or make another one the default.

    Another one takes every index to its vectors, while it is searched. That is followed here until it is done;
    it goes on without us after Ctrl-C.
    """
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.embedder.registry import UpdateModel  # noqa: PLC0415 (slow)

    if model is None:
        now = await session.models.default_model()
        session.output.show(now, lambda: model_tables.models((now,)))
        return
    now = await session.models.update_model(request_of(UpdateModel, {"id": model, "is_default": True}))
    session.output.say(plain_line(f"{now.name} of {now.provider} is the default model."))
    if not follow or now.fingerprint is None:
        session.output.show(
            {"model": now.model_dump(mode="json")}, lambda: "`skillbus index status` shows how far it is."
        )
        return
    states = await follow_switch(session.models, session.output, now.fingerprint)
    indexes = [state.model_dump(mode="json") for state in states]
    document: dict[str, object] = {"model": now.model_dump(mode="json"), "indexes": indexes}
    session.output.show(document, lambda: model_tables.indexes(states))
