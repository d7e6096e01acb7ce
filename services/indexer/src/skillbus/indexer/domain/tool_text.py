"""What of a tool is embedded: one text for its dense vector, another for its sparse one.

Chosen by recall@5, English and Chinese, on the dev tools (5,511, with 3,056 queries that have an answer; measured again
by benchmarks/ranking_quality.py). Dense: name and description 0.377, 0.771; name split, tags and argument names added
0.404, 0.809; the arguments' descriptions as well 0.401, 0.796. Sparse: name and description 0.494, 0.861; all of it
0.515, 0.896; the name twice makes no difference once both are fused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

MAX_ARGUMENTS = 64  # of a tool; more says no more about what the tool is for
_MAX_CHARS = 8_192  # of a text; the lexical encoder reads no more, and a dense vector of so much says nothing
_JOINT = re.compile(r"[_\-./\s]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def dense_text(
    name: str, description: str, tags: Sequence[str] = (), parameters: Mapping[str, JsonValue] | None = None
) -> str:
    """A sentence for a model of sentences: name in words, description, tags, names of arguments.

    `parameters` is the JSON Schema of the tool's arguments; only its `properties` are looked at.
    """
    arguments = (split_words(argument) for argument, _ in _arguments(parameters))
    return _joined((f"{split_words(name)}.", description, *tags, *arguments))


def lexical_text(
    name: str, description: str, tags: Sequence[str] = (), parameters: Mapping[str, JsonValue] | None = None
) -> str:
    """Every word that a request may repeat, names as they are: the lexical encoder splits them and keeps both forms."""
    arguments = (word for argument in _arguments(parameters) for word in argument)
    return _joined((name, description, *tags, *arguments))


def split_words(name: str) -> str:
    """`camelCase`, `PDFReader`, `snake_case` and `kebab-case` as words."""
    return " ".join(part for part in _JOINT.split(name) if part)


def _arguments(parameters: Mapping[str, JsonValue] | None) -> Iterator[tuple[str, str]]:
    """Name and description of each argument; schemas come from strangers, and what is not one has none."""
    properties = (parameters or {}).get("properties")
    if not isinstance(properties, dict):
        return
    for name, schema in list(properties.items())[:MAX_ARGUMENTS]:
        description = schema.get("description") if isinstance(schema, dict) else None
        yield name, description if isinstance(description, str) else ""


def _joined(parts: Sequence[str]) -> str:
    return " ".join(stripped for part in parts if (stripped := part.strip()))[:_MAX_CHARS]
