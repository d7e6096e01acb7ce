"""Tables of providers, models and indexes."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from skillbus.cli.tables import build_table, format_yes
from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.contracts.indexer.index_switch import IndexModel, IndexState


def render_providers(found: Sequence[ProviderRecord]) -> RenderableType:
    """Render providers. A key is shown as the place where it is."""
    if not found:
        return Text("No provider is registered. `skillbus providers add NAME --kind KIND` adds one.")
    headings = ("name", "kind", "address", "key", "timeout", "concurrency", "enabled")
    rows = [
        (
            it.name,
            it.kind.value,
            it.base_url or "-",
            it.api_key or "-",
            f"{it.timeout_s:g} s",
            str(it.max_concurrency or "-"),
            format_yes(it.enabled),
        )
        for it in found
    ]
    return build_table(headings, rows, numbers=("timeout", "concurrency"), optional=("concurrency", "timeout"))


def render_models(found: Sequence[ModelRecord]) -> RenderableType:
    """Render models."""
    if not found:
        return Text("No model is registered. `skillbus models add PROVIDER NAME` adds one.")
    headings = ("name", "provider", "kind", "state", "dimensions", "fingerprint", "priority")
    rows = [
        (
            it.name,
            it.provider,
            it.kind.value,
            _name_state(it),
            str(it.dimensions or "-"),
            it.fingerprint or "-",
            str(it.priority),
        )
        for it in found
    ]
    optional = ("priority", "fingerprint", "dimensions")
    return build_table(headings, rows, numbers=("dimensions", "priority"), whole=("state",), optional=optional)


def _name_state(model: ModelRecord) -> str:
    if not model.enabled:
        return "disabled"
    return "default" if model.is_default else "enabled"


def render_indexes(states: Sequence[IndexState]) -> RenderableType:
    """Render the model of each index and its last switch."""
    rows = []
    for it in states:
        dimensions, collection = (str(it.live.dimensions), it.live.collection) if it.live else ("-", "-")
        last = "-"
        if (switch := it.switch) is not None:
            kept = f", kept until {switch.kept_until:%Y-%m-%d %H:%M %Z}" if switch.kept_until else ""
            problem = f"; it waits: {switch.problem}" if switch.problem else ""
            models = f"{_format_model(switch.source)} → {_format_model(switch.target)}"
            last = f"{switch.phase.value}: {models}, {switch.done} of {switch.total}{kept}{problem}"
        rows.append((it.alias, _format_model(it.live), dimensions, collection, last))
    headings = ("index", "model", "dimensions", "collection", "last switch")
    return build_table(headings, rows, numbers=("dimensions",), whole=("model",), optional=("collection", "dimensions"))


def _format_model(model: IndexModel | None) -> str:
    return "-" if model is None else model.name or f"unknown ({model.fingerprint})"
