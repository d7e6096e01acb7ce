"""`skillbus providers`."""

from typing import Annotated

import typer

from skillbus.cli.client.http_api import PROVIDERS
from skillbus.cli.completion import complete_provider
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.models.view import render_providers
from skillbus.cli.options import build_request
from skillbus.cli.output import clean_line
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.embedder.registry import (
    CreateProvider,
    ProviderKind,
    ProviderRecord,
    ProvidersListed,
    ProviderTested,
    UpdateProvider,
)

Name = Annotated[str, typer.Argument(help="Name of the provider.", autocompletion=complete_provider)]
Kind = Annotated[ProviderKind, typer.Option("--kind", help="Protocol of the provider: openai for all that speak it.")]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Address, if it is not the usual one of its kind.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key", metavar="REF", help="Place of its key on the server: env:NAME or file:PATH. Never the key."
    ),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds that a request may take.")]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", help="Largest number of concurrent requests. Default: 4, and 32 chats.")
]
BatchTexts = Annotated[int | None, typer.Option("--batch-texts", help="Largest number of texts in a request.")]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Use its models, or do not.")]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="Embedding model to test with. Default: the first one.")
]


@remote_command("skillbus providers list", has_project=False)
async def list_providers(session: Session) -> None:
    """List the providers of models."""
    listed = await session.connection.request(ProvidersListed, "GET", PROVIDERS)
    session.output.show_result(listed, lambda: render_providers(listed.providers))


@remote_command(
    "skillbus providers add openai --kind openai --api-key env:OPENAI_API_KEY", has_project=False, key_option="--key"
)
async def add_provider(
    session: Session,
    name: Name,
    kind: Kind,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    timeout: Timeout = None,  # noqa: ASYNC109 (the provider's timeout, not this function's)
    concurrency: Concurrency = None,
    batch_texts: BatchTexts = None,
) -> None:
    """Add a provider.

    `skillbus models add` then adds its models. Examples: `ollama --kind ollama`,
    `anthropic --kind anthropic --api-key env:ANTHROPIC_API_KEY`,
    `vllm --kind openai --base-url http://gpu:8000/v1`.
    """
    fields: dict[str, object] = {"name": name, "kind": kind, "base_url": base_url, "api_key": api_key}
    fields |= {"timeout_s": timeout, "max_concurrency": concurrency, "max_batch_texts": batch_texts}
    body = build_request(CreateProvider, fields).model_dump(mode="json", exclude_unset=True)
    added = await session.connection.request(ProviderRecord, "POST", PROVIDERS, json=body)
    session.output.show_result(added, lambda: render_providers((added,)))
    session.output.print_note(
        f"`skillbus models add {added.name} MODEL` adds one of its models, with --chat one for chats."
    )


@remote_command("skillbus providers update openai --timeout 20", has_project=False, key_option="--key")
async def update_provider(
    session: Session,
    name: Name,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    timeout: Timeout = None,  # noqa: ASYNC109 (as above)
    concurrency: Concurrency = None,
    batch_texts: BatchTexts = None,
    enabled: Enabled = None,
) -> None:
    """Change a provider. Options that are not given stay as they are; an empty text clears, as in --api-key "".
    A new --base-url of a provider with a key needs --api-key in the same call.

    The change applies from the next request on.
    """
    fields: dict[str, object] = {"name": name, "base_url": base_url, "api_key": api_key, "enabled": enabled}
    fields |= {"timeout_s": timeout, "max_concurrency": concurrency, "max_batch_texts": batch_texts}
    body = build_request(UpdateProvider, fields).model_dump(mode="json", exclude_unset=True, exclude={"name"})
    updated = await session.connection.request(ProviderRecord, "PATCH", join_path(PROVIDERS, name), json=body)
    session.output.show_result(updated, lambda: render_providers((updated,)))


@remote_command("skillbus providers remove openai --yes", has_project=False)
async def remove_provider(session: Session, name: Name, yes: YesOption = False) -> None:
    """Remove a provider that has no models."""
    if not yes:
        session.confirm_removal([name])
    await session.connection.send("DELETE", join_path(PROVIDERS, name))
    session.output.show_result({"name": name, "outcome": "removed"}, lambda: f"{clean_line(name)}: removed")


@remote_command("skillbus providers test openai", has_project=False)
async def try_provider(session: Session, name: Name, model: ModelOption = None) -> None:
    """Request one vector from a provider, by one of its embedding models.

    Exits with 1 if it returns none.
    """
    path, body = join_path(PROVIDERS, name, "test"), {} if model is None else {"model": model}
    tested = await session.connection.request(ProviderTested, "POST", path, json=body)
    with_model = f" with {tested.model}" if tested.model else ""
    if tested.ok:
        verdict = f"{name} works{with_model}: {tested.dimensions} dimensions in {tested.took_ms:.0f} ms"
    else:
        verdict = f"{name} returns no vector{with_model}: {tested.error or 'it gave no reason'}"
    session.output.show_result(tested, lambda: clean_line(verdict))
    if not tested.ok:
        raise typer.Exit(EXIT_FAILED)
