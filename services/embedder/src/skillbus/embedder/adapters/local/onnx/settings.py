"""How the author of a model wants its output read: the files of sentence-transformers beside it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from skillbus.embedder.adapters.local.onnx.files import POOLING
from skillbus.embedder.domain.errors import ModelFilesBrokenError, ModelUnavailableError

_COMPUTED_HERE: Final = {"Transformer", "Pooling", "Normalize"}
_POSITIONS_FROM_PADDING: Final = {"camembert", "mpnet", "roberta", "xlm-roberta"}
"""Count positions from 2, so that two of `max_position_embeddings` are never reached."""


class Pooling(StrEnum):
    """Which vectors of the tokens make the vector of a text."""

    MEAN = "mean"
    CLS = "cls"
    """The first one."""


@dataclass(frozen=True, slots=True)
class OnnxSettings:
    """Of one directory; what its files do not say is None, or as most models have it."""

    pooling: Pooling
    max_tokens: int | None
    """As the author wants it."""
    positions: int | None
    """More tokens than these the model cannot read."""
    pad_id: int | None
    further_layers: tuple[str, ...]
    """Between the pooled vector and the embedding; a graph that ends with the tokens' vectors lacks them."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises ModelFilesBrokenError if a file is not what it should be, ModelUnavailableError for other poolings."""
        config = _object(folder / "config.json")
        positions = _number(config, "max_position_embeddings")
        if positions is not None and config.get("model_type") in _POSITIONS_FROM_PADDING:
            positions -= 2
        return cls(
            _pooling(folder / POOLING),
            _number(_object(folder / "sentence_bert_config.json"), "max_seq_length"),
            positions,
            _number(config, "pad_token_id"),
            _further_layers(folder / "modules.json"),
        )


def _pooling(path: Path) -> Pooling:
    modes = {key.removeprefix("pooling_mode_"): value for key, value in _object(path).items()}
    chosen = {key for key, value in modes.items() if value is True and key.endswith(("tokens", "token"))}
    if "pooling_mode" in modes:
        chosen = {f"{modes['pooling_mode']}_tokens"}
    match sorted(chosen):
        case [] | ["mean_tokens"]:
            return Pooling.MEAN
        case ["cls_token"] | ["cls_tokens"]:
            return Pooling.CLS
        case others:
            raise ModelUnavailableError(f"{path} asks for {' and '.join(others)}; only mean and cls are computed here")


def _further_layers(path: Path) -> tuple[str, ...]:
    modules = _json(path)
    if modules is None:
        return ()
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ModelFilesBrokenError(path, "it is no list of objects")
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    return tuple(kind for kind in kinds if kind not in _COMPUTED_HERE)


def _number(settings: Mapping[str, object], key: str) -> int | None:
    value = settings.get(key)
    return value if isinstance(value, int) else None


def _object(path: Path) -> Mapping[str, object]:
    value = _json(path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ModelFilesBrokenError(path, "it is no object")
    return value


def _json(path: Path) -> object:
    """None if there is no such file."""
    try:
        value: object = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise ModelFilesBrokenError(path, f"it is no JSON: {error}") from error
    return value
