"""Records of local models, and tiny ones that compute what a test can say in its head."""

import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from skillbus.contracts.embedder.registry import ModelRecord, ProviderKind, ProviderRecord

_NOW = datetime(2026, 11, 22, tzinfo=UTC)
LOCAL = ProviderRecord(name="local", kind=ProviderKind.LOCAL, version=1, created_at=_NOW, updated_at=_NOW)
TABLE = np.array([[1, 0, 0], [3, 4, 0], [0, 0, 2], [0, 5, 0]], np.float32)
"""Vectors of the words <pad>, git, commit, file: all that a tiny model knows."""
_INT64, _FLOAT = 7, 1


def record(name: str, **fields: object) -> ModelRecord:
    return ModelRecord.model_validate(
        {"id": "0" * 32, "provider": "local", "name": name, "is_default": False, "fingerprint": None, "version": 1}
        | {"created_at": _NOW, "updated_at": _NOW}
        | fields
    )


def tiny_model(
    folder: Path, inputs: tuple[str, ...] = ("input_ids", "attention_mask"), *, pooled: bool = False
) -> Path:
    """A directory whose graph looks words up in `TABLE`; `pooled` takes their mean in the graph, padding and all."""
    folder.mkdir(parents=True)
    words = {"<pad>": 0, "git": 1, "commit": 2, "file": 3}
    tokenizer = Tokenizer(WordLevel(words, unk_token="file"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "model.onnx").write_bytes(_graph(inputs, pooled=pooled))
    return folder


def _graph(inputs: tuple[str, ...], *, pooled: bool) -> bytes:
    """ModelProto of onnx.proto3, field by field: opset 13, and one or two nodes."""
    nodes = [
        _part(1, _string(1, "table"), _string(1, "input_ids"), _string(2, "last_hidden_state"), _string(4, "Gather"))
    ]
    outputs = [_value(12, "last_hidden_state", _FLOAT, rank=3)]
    if pooled:
        axes = _part(5, _string(1, "axes"), _number(8, 1), _number(20, 7))
        keep = _part(5, _string(1, "keepdims"), _number(3, 0), _number(20, 2))
        names = _string(1, "last_hidden_state"), _string(2, "sentence_embedding"), _string(4, "ReduceMean")
        nodes.append(_part(1, *names, axes, keep))
        outputs.append(_value(12, "sentence_embedding", _FLOAT, rank=2))
    shape = b"".join(_number(1, size) for size in TABLE.shape)
    table = _part(5, shape, _number(2, _FLOAT), _string(8, "table"), _part(9, TABLE.astype("<f4").tobytes()))
    values = [_value(11, name, _INT64, rank=2) for name in inputs]
    graph = _part(7, *nodes, _string(2, "tiny"), table, *values, *outputs)
    return _number(1, 8) + graph + _part(8, _number(2, 13))


def _value(field: int, name: str, kind: int, rank: int) -> bytes:
    dims = b"".join(_part(1, _string(2, f"{name}_{axis}")) for axis in range(rank))
    return _part(field, _string(1, name), _part(2, _part(1, _number(1, kind), _part(2, dims))))


def _part(field: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _string(field: int, text: str) -> bytes:
    return _part(field, text.encode())


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += struct.pack("B", value & 0x7F | 0x80)
        value >>= 7
    return out + struct.pack("B", value)
