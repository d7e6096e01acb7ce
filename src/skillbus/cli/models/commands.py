"""`skillbus models` and `skillbus index`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from skillbus.cli.client.http_api import INDEXES, MODELS
from skillbus.cli.completion import complete_model, complete_provider
from skillbus.cli.errors import EXIT_FAILED, ModelTestFailedError
from skillbus.cli.models.switch_follower import follow_switch, is_running
from skillbus.cli.models.view import render_indexes, render_models
from skillbus.cli.options import build_request
from skillbus.cli.output import clean_line
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.embedder.registry import (
    CreateModel,
    LocalRuntime,
    ModelKind,
    ModelRecord,
    ModelsListed,
    UpdateModel,
)
from skillbus.contracts.http import ModelTested
from skillbus.contracts.indexer.index_switch import IndexesListed, IndexState


def complete_index(incomplete: str) -> list[str]:
    """Return the indexes that begin with the text."""
    return [name for name in ("tools", "knowledge", "devices", "commands") if name.startswith(incomplete)]


ModelName = Annotated[
    str, typer.Argument(help="Id or name of the model, or PROVIDER/NAME.", autocompletion=complete_model)
]
DefaultName = Annotated[
    str | None,
    typer.Argument(help="New default: id, name, or PROVIDER/NAME.", show_default=False, autocompletion=complete_model),
]
Provider = Annotated[str, typer.Argument(help="Provider of the model.", autocompletion=complete_provider)]
NewName = Annotated[str, typer.Argument(help="Name of the model at its provider.")]
Dimensions = Annotated[int | None, typer.Option("--dimensions", help="Length of its vectors. Default: measured.")]
RequestDimensions = Annotated[
    bool | None,
    typer.Option("--request-dimensions/--no-request-dimensions", help="Send the dimensions with each request."),
]
Priority = Annotated[int | None, typer.Option("--priority", help="Order among the fallbacks, lowest first.")]
ApiPath = Annotated[str | None, typer.Option("--api-path", help="Path below the provider's address.")]
MaxChars = Annotated[int | None, typer.Option("--max-chars", help="Longest text in characters; the rest is cut.")]
QueryPrefix = Annotated[str | None, typer.Option("--query-prefix", help="Text put before each query.")]
DocumentPrefix = Annotated[str | None, typer.Option("--document-prefix", help="Text put before each document.")]
Runtime = Annotated[LocalRuntime | None, typer.Option("--runtime", help="Runtime of a local model.")]
ModelPath = Annotated[str | None, typer.Option("--path", help="Directory of a local ONNX model in the model folder.")]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Use the model, or do not.")]
Chat = Annotated[bool, typer.Option("--chat", help="A model that answers chats. It has no vectors and their options.")]
Test = Annotated[
    bool, typer.Option("--test/--no-test", help="Make a test call: see `skillbus models test`. The model is kept.")
]
Default = Annotated[bool, typer.Option("--default", help="Make it the default of its kind.")]
Tools = Annotated[
    Path, typer.Option("--tools", exists=True, dir_okay=False, help="JSON lines with id, name, description of tools.")
]
Queries = Annotated[
    Path, typer.Option("--queries", exists=True, dir_okay=False, help="JSON lines with query and relevant tool ids.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the numbers, and save nothing.")]
Alias = Annotated[
    str, typer.Argument(help="Index: tools, knowledge, devices or commands.", autocompletion=complete_index)
]
Follow = Annotated[bool, typer.Option("--follow/--no-follow", help="Wait until the indexes use the model.")]
FollowSwitch = Annotated[bool, typer.Option("--follow/--no-follow", help="Wait until the switch is done.")]

_TEST_S: Final = 90.0
"""Seconds to wait for a test call: longer than the 60 s that the server gives it, which then says why it failed."""


@remote_command("skillbus models list", has_project=False)
async def list_models(session: Session) -> None:
    """List the models: those for embeddings, then those for chats; of each kind the default first, then by priority."""
    listed = await session.connection.request(ModelsListed, "GET", MODELS)
    session.output.show_result(listed, lambda: render_models(listed.models))


@remote_command("skillbus models add openai text-embedding-3-small --default", has_project=False)
async def add_model(  # noqa: PLR0913 (one parameter for each option)
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
    runtime: Runtime = None,
    path: ModelPath = None,
    chat: Chat = False,
    default: Default = False,
    test: Test = True,
) -> None:
    """Add a model of a provider: one for embeddings, or one for chats with --chat.

    A chat model is asked for one short answer, an embedding model for one vector. If it gives none, the model is kept
    and the exit code is 1. The first chat model becomes the default one. Examples: `ollama qwen3 --chat`,
    `openai gpt-5 --chat`, `anthropic claude-sonnet-4-5 --chat --default`.
    """
    fields: dict[str, object] = {"provider": provider, "name": name, "dimensions": dimensions, "priority": priority}
    fields |= {"request_dimensions": request_dimensions, "api_path": api_path, "max_chars": max_chars}
    fields |= {"query_prefix": query_prefix, "document_prefix": document_prefix, "runtime": runtime, "path": path}
    fields |= {"kind": ModelKind.CHAT if chat else None, "is_default": default or None}
    request = build_request(CreateModel, fields)
    body = request.model_dump(mode="json", exclude_unset=True)
    added = await session.connection.request(ModelRecord, "POST", MODELS, json=body)
    # An embedding model without dimensions has given a vector already: that is how they are measured.
    if not test or (not chat and dimensions is None):
        session.output.show_result(added, lambda: render_models((added,)))
        return
    session.output.print_text(render_models((added,)))
    tested = await _request_test(session, added.id)
    document = added.model_dump(mode="json") | {"test": tested.model_dump(mode="json")}
    session.output.show_result(document, lambda: _format_test(tested))
    if not tested.ok:
        again = f"{added.provider}/{added.name}"
        advice = f"It is kept. `skillbus models test {again}` tries again, `skillbus models remove {again}` removes it."
        session.fail(ModelTestFailedError("", advice))


@remote_command("skillbus models test gpt-5", has_project=False)
async def try_model(session: Session, model: ModelName) -> None:
    """Make a test call: ask a chat model for one short answer, or an embedding model for one vector.

    Exits with 1 if it gives none. The provider takes for the call what it takes for any.
    """
    tested = await _request_test(session, model)
    session.output.show_result(tested, lambda: _format_test(tested))
    if not tested.ok:
        raise typer.Exit(EXIT_FAILED)


async def _request_test(session: Session, model: str) -> ModelTested:
    path = f"{join_path(MODELS, *model.split('/'))}/test"
    return await session.connection.request(ModelTested, "POST", path, wait_s=_TEST_S)


def _format_test(tested: ModelTested) -> str:
    name = f"{tested.model} of {tested.provider}"
    if not tested.ok:
        return clean_line(f"{name} does not work: {tested.error or 'it gave no reason'}")
    gave = f"{tested.dimensions} dimensions" if tested.dimensions else "an answer"
    return clean_line(f"{name} works: {gave} in {tested.took_ms:.0f} ms")


@remote_command("skillbus models update text-embedding-3-small --priority 2", has_project=False)
async def update_model(  # noqa: PLR0913 (one parameter for each option)
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
    path: ModelPath = None,
    enabled: Enabled = None,
) -> None:
    """Change a model. Options that are not given stay as they are; an empty text clears, as in --query-prefix "".

    The change applies from the next text on. If it changes the vectors, the indexes are rebuilt.
    """
    fields: dict[str, object] = {"id": model, "dimensions": dimensions, "priority": priority, "enabled": enabled}
    fields |= {"request_dimensions": request_dimensions, "api_path": api_path, "max_chars": max_chars}
    fields |= {"query_prefix": query_prefix, "document_prefix": document_prefix, "path": path}
    updated = await _update_model(session, build_request(UpdateModel, fields))
    session.output.show_result(updated, lambda: render_models((updated,)))


async def _update_model(session: Session, changes: UpdateModel) -> ModelRecord:
    """Change the fields of a model that are set."""
    body = changes.model_dump(mode="json", exclude_unset=True, exclude={"id"})
    path = join_path(MODELS, *changes.id.split("/"))
    return await session.connection.request(ModelRecord, "PATCH", path, json=body)


@remote_command("skillbus models remove text-embedding-3-small --yes", has_project=False)
async def remove_model(session: Session, model: ModelName, yes: YesOption = False) -> None:
    """Remove a model that is not the default. The last chat model can be removed, too."""
    if not yes:
        session.confirm_removal([model])
    await session.connection.send("DELETE", join_path(MODELS, *model.split("/")))
    session.output.show_result({"name": model, "outcome": "removed"}, lambda: f"{clean_line(model)}: removed")


@remote_command("skillbus models default text-embedding-3-small", has_project=False)
async def choose_default(session: Session, model: DefaultName = None, follow: Follow = True) -> None:
    """Show the default embedding model, or make another model the default of its kind.

    A new default for embeddings switches every index to its vectors. Searches work during the switch, and the command
    waits for its end. Ctrl-C ends the waiting, not the switch.
    """
    if model is None:
        current = await session.connection.request(ModelRecord, "GET", f"{MODELS}/default")
        session.output.show_result(current, lambda: render_models((current,)))
        return
    chosen = await _update_model(session, build_request(UpdateModel, {"id": model, "is_default": True}))
    title = "default chat model" if chosen.kind is ModelKind.CHAT else "default model"
    session.output.print_text(clean_line(f"{chosen.name} of {chosen.provider} is the {title}."))
    document: dict[str, object] = {"model": chosen.model_dump(mode="json")}
    if chosen.kind is ModelKind.CHAT:
        session.output.show_result(document, lambda: render_models((chosen,)))
        return
    if not follow or chosen.fingerprint is None:
        session.output.show_result(document, lambda: "`skillbus index list` shows the progress.")
        return
    states = await follow_switch(session.connection, session.output, chosen.fingerprint)
    document["indexes"] = [state.model_dump(mode="json") for state in states]
    session.output.show_result(document, lambda: render_indexes(states))


@remote_command(
    "skillbus models calibrate bge-m3 --tools tools.jsonl --queries queries.jsonl --dry-run", has_project=False
)
async def calibrate_model(
    session: Session, model: ModelName, tools: Tools, queries: Queries, dry_run: DryRun = False
) -> None:
    """Fit the map from a model's cosines to scores, on tools and queries with known relevance.

    It needs at least ten queries with one relevant tool each; some hundred real queries give stable numbers. A score
    then means the same as with any other model. Vectors do not change, and searches use the map at once.
    """
    # NumPy and BM25 are slow to import, and help pages need not wait for them.
    from skillbus.cli.models.calibration import fit_model_scores  # noqa: PLC0415

    await fit_model_scores(session, model, tools, queries, dry_run=dry_run)


@remote_command("skillbus index list", has_project=False)
async def list_indexes(session: Session) -> None:
    """Show the model of each index, and the progress of its last switch to another model."""
    listed = await session.connection.request(IndexesListed, "GET", INDEXES)
    session.output.show_result(listed, lambda: render_indexes(listed.indexes))


@remote_command("skillbus index switch tools", has_project=False)
async def switch_index(session: Session, index: Alias = "tools", follow: FollowSwitch = True) -> None:
    """Switch an index to the default model, also after a rollback.

    Searches work during the switch. Ctrl-C ends the waiting, not the switch.
    """
    state = await session.connection.request(IndexState, "POST", join_path(INDEXES, index, "switch"))
    if follow and state.switch is not None and is_running(state.switch):
        target = state.switch.target.fingerprint
        (state,) = await follow_switch(session.connection, session.output, target, only=state.alias)
    session.output.show_result(state, lambda: render_indexes((state,)))


@remote_command("skillbus index rollback tools", has_project=False)
async def roll_back_index(session: Session, index: Alias = "tools") -> None:
    """Undo the last switch of an index, or cancel one that is running."""
    state = await session.connection.request(IndexState, "POST", join_path(INDEXES, index, "rollback"))
    session.output.show_result(state, lambda: render_indexes((state,)))
