"""How providers, models and indexes look to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from skillbus.cli.tables import rows

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
    from skillbus.contracts.indexer.index_switch import IndexModel, IndexState, IndexSwitch


def providers(found: Sequence[ProviderRecord]) -> RenderableType:
    """Providers; a key is shown as where it is."""
    if not found:
        return Text("No provider is registered. `skillbus providers add NAME --kind KIND` adds one.")
    headings = ("name", "kind", "address", "key", "timeout", "concurrency", "enabled")
    lines = [
        (
            it.name,
            it.kind.value,
            it.base_url or "-",
            it.api_key or "-",
            f"{it.timeout_s:g} s",
            str(it.max_concurrency),
            _yes(it.enabled),
        )
        for it in found
    ]
    return rows(headings, lines, numbers=("timeout", "concurrency"))


def models(found: Sequence[ModelRecord]) -> RenderableType:
    """Models."""
    if not found:
        return Text("No model is registered. `skillbus models add PROVIDER NAME` adds one.")
    headings = ("name", "provider", "default", "dimensions", "fingerprint", "priority", "enabled")
    lines = [
        (
            it.name,
            it.provider,
            _yes(it.is_default),
            str(it.dimensions or "-"),
            it.fingerprint or "-",
            str(it.priority),
            _yes(it.enabled),
        )
        for it in found
    ]
    return rows(headings, lines, numbers=("dimensions", "priority"))


def indexes(states: Sequence[IndexState]) -> RenderableType:
    """What is searched, and the last change of it."""
    headings = ("index", "model", "dimensions", "collection", "last change")
    lines = [
        (
            it.alias,
            _model(it.live),
            str(it.live.dimensions) if it.live else "-",
            it.live.collection if it.live else "-",
            _change(it.switch),
        )
        for it in states
    ]
    return rows(headings, lines, numbers=("dimensions",))


def _model(model: IndexModel | None) -> str:
    return "-" if model is None else model.name or f"unknown ({model.fingerprint})"


def _change(switch: IndexSwitch | None) -> str:
    if switch is None:
        return "-"
    said = f"{switch.phase.value}: {_model(switch.source)} → {_model(switch.target)}, {switch.done} of {switch.total}"
    kept = f", kept until {switch.kept_until:%Y-%m-%d %H:%M %Z}" if switch.kept_until else ""
    problem = f"; it waits: {switch.problem}" if switch.problem else ""
    return said + kept + problem


def _yes(value: bool) -> str:
    return "yes" if value else "no"
