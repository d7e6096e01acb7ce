"""Settings of an ONNX model: the files that sentence-transformers writes next to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from skillbus.embedder.adapters.local.onnx.files import POOLING
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError

_SUPPORTED_LAYERS: Final = {"Transformer", "Pooling", "Normalize"}
_POSITIONS_FROM_PADDING: Final = {"camembert", "mpnet", "roberta", "xlm-roberta"}
"""Model types that count positions from 2, so that two of `max_position_embeddings` are never used."""


class Pooling(StrEnum):
    """Reduction of token vectors to the vector of a text."""

    MEAN = "mean"
    CLS = "cls"
    """Vector of the first token."""


@dataclass(frozen=True, slots=True)
class OnnxSettings:
    """Settings of one directory; a missing value is None, or the most common one."""

    pooling: Pooling
    max_tokens: int | None
    """Limit that the author chose."""
    positions: int | None
    """Limit of the model itself."""
    pad_id: int | None
    further_layers: tuple[str, ...]
    """Layers after pooling. A graph that outputs token vectors lacks them."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load the files.

        Raises:
            ModelFilesBrokenError: a file is malformed.
            ModelUnavailableError: the pooling is not supported.
        """
        config = _load_object(folder / "config.json")
        positions = _get_number(config, "max_position_embeddings")
        if positions is not None and config.get("model_type") in _POSITIONS_FROM_PADDING:
            positions -= 2
        modules = _load_json(folder / "modules.json")
        modules = [] if modules is None else modules
        if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
            raise ModelFilesBrokenError(folder / "modules.json", "it is not a list of objects")
        layers = [str(module.get("type")).rpartition(".")[2] for module in modules]
        return cls(
            _load_pooling(folder / POOLING),
            _get_number(_load_object(folder / "sentence_bert_config.json"), "max_seq_length"),
            positions,
            _get_number(config, "pad_token_id"),
            tuple(layer for layer in layers if layer not in _SUPPORTED_LAYERS),
        )


def _load_pooling(path: Path) -> Pooling:
    modes = {key.removeprefix("pooling_mode_"): value for key, value in _load_object(path).items()}
    chosen = {key for key, value in modes.items() if value is True and key.endswith(("tokens", "token"))}
    if "pooling_mode" in modes:
        chosen = {f"{modes['pooling_mode']}_tokens"}
    match sorted(chosen):
        case [] | ["mean_tokens"]:
            return Pooling.MEAN
        case ["cls_token"] | ["cls_tokens"]:
            return Pooling.CLS
        case others:
            raise ModelUnavailableError(f"{path} requires {' and '.join(others)}; only mean and cls are supported")


def _get_number(settings: Mapping[str, object], key: str) -> int | None:
    value = settings.get(key)
    return value if isinstance(value, int) else None


def _load_object(path: Path) -> Mapping[str, object]:
    value = _load_json(path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ModelFilesBrokenError(path, "it is not an object")
    return value


def _load_json(path: Path) -> object:
    """Return the parsed file, or None if it does not exist."""
    try:
        value: object = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise ModelFilesBrokenError(path, f"it is not JSON: {error}") from error
    return value
