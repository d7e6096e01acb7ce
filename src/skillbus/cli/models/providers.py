"""`skillbus providers`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.models import view as model_tables
from skillbus.cli.removal import confirm_removal
from skillbus.cli.session import Session
from skillbus.cli.text import plain_line

if TYPE_CHECKING:
    from skillbus.contracts.embedder.registry import ProviderTested

Kind = Literal["openai", "ollama", "dashscope", "anthropic", "local"]
"""As `skillbus.contracts.registry.ProviderKind`, which is slow to import; a test compares the two."""

Name = Annotated[str, typer.Argument(help="The provider.")]
KindOption = Annotated[Kind, typer.Option("--kind", help="Which protocol it speaks.")]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Its address, if it is not the usual one of its kind.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key", metavar="REF", help="Where its key is: env:NAME or file:PATH of the embedder; never the key."
    ),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds that a request to it may take.")]
Concurrency = Annotated[int | None, typer.Option("--concurrency", help="Requests to it at the same time.")]
BatchTexts = Annotated[int | None, typer.Option("--batch-texts", help="Texts of one request to it.")]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether its models are tried.")]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="With this model; the first that is registered for it if absent.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


async def list_providers(session: Session) -> None:
    """List the providers of embedding models."""
    listed = await session.models.providers()
    session.output.show(listed, lambda: model_tables.providers(listed.providers))


async def add(
    session: Session,
    name: Name,
    kind: KindOption,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    timeout: Timeout = None,  # noqa: ASYNC109 (the provider's, not this function's)
    concurrency: Concurrency = None,
    batch_texts: BatchTexts = None,
) -> None:
    """Add a provider. Its models are added with `skillbus models add`."""
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.embedder.registry import CreateProvider  # noqa: PLC0415 (slow)

    fields: dict[str, object] = {"name": name, "kind": kind, "base_url": base_url, "api_key": api_key}
    fields |= {"timeout_s": timeout, "max_concurrency": concurrency, "max_batch_texts": batch_texts}
    added = await session.models.add_provider(request_of(CreateProvider, fields))
    session.output.show(added, lambda: model_tables.providers((added,)))
    session.output.note(f"`skillbus models add {added.name} MODEL` adds a model of it.")


async def update(
    session: Session,
    name: Name,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    timeout: Timeout = None,  # noqa: ASYNC109 (as above)
    concurrency: Concurrency = None,
    batch_texts: BatchTexts = None,
    enabled: Enabled = None,
) -> None:
    """Change a provider; what is not named stays. An empty text clears: --api-key "".

    The next text is embedded by what it is then.
    """
    from skillbus.cli.request_fields import request_of  # noqa: PLC0415 (slow)
    from skillbus.contracts.embedder.registry import UpdateProvider  # noqa: PLC0415 (slow)

    fields: dict[str, object] = {"name": name, "base_url": base_url, "api_key": api_key, "enabled": enabled}
    fields |= {"timeout_s": timeout, "max_concurrency": concurrency, "max_batch_texts": batch_texts}
    updated = await session.models.update_provider(request_of(UpdateProvider, fields))
    session.output.show(updated, lambda: model_tables.providers((updated,)))


async def remove(session: Session, name: Name, yes: Yes = False) -> None:
    """Remove a provider that has no models."""
    if not yes:
        confirm_removal([name], as_json=session.output.as_json)
    await session.models.remove_provider(name)
    session.output.show({"name": name, "outcome": "removed"}, lambda: f"{plain_line(name)}: removed")


async def try_out(session: Session, name: Name, model: ModelOption = None) -> None:
    """Ask a provider for one vector. Exits with 1 when it gives none."""
    tested = await session.models.test_provider(name, model)
    session.output.show(tested, lambda: verdict(name, tested))
    if not tested.ok:
        raise typer.Exit(EXIT_FAILED)


def verdict(name: str, tested: "ProviderTested") -> str:
    """The outcome in a line."""
    with_model = f" with {tested.model}" if tested.model else ""
    if not tested.ok:
        return plain_line(f"{name} gives no vector{with_model}: {tested.error or 'it did not say why'}")
    return plain_line(f"{name} works{with_model}: {tested.dimensions} dimensions in {tested.took_ms:.0f} ms")
