"""What of a tool is embedded: one text for its dense vector, another for its sparse one, with what stands aside.

The dense side was chosen by recall@5, English and Chinese: name and description alone 0.377, 0.771; tags and names of
arguments beside them 0.406, 0.808; descriptions of arguments as well, or names split into words, no more; of the
description only the beginning 0.405, 0.815, and Chinese requests for English tools 0.686 where it was 0.600.
docs/retrieval.md has what each part brings to the whole.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

MAX_ARGUMENTS = 64  # of a tool; more says no more about what the tool is for
_GIST_CHARS = 200  # of a description: what a tool is for stands first, and details dilute the vector of a sentence
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_MAX_CHARS = 8_192  # of a text; the lexical encoder reads no more, and a dense vector of so much says nothing


def dense_text(
    name: str, description: str, tags: Sequence[str] = (), parameters: Mapping[str, JsonValue] | None = None
) -> str:
    """A sentence for a model of sentences: name, description, tags, names of arguments.

    `parameters` is the JSON Schema of the tool's arguments; only its `properties` are looked at. English tags behind a
    Chinese description, or the other way round, are left to the lexical side: the vector of a mixed sentence is far
    from both (git-commit, 生成Git提交信息, to 帮我提交代码: cosine .36; with git, commit, versioning behind it .22).
    """
    arguments = (argument for argument, _ in arguments_of(parameters))
    gist = description[:_GIST_CHARS]
    fitting = (tag for tag in tags if _has_han(tag) == _has_han(gist))
    return _joined((f"{name}.", gist, *fitting, *arguments))


def lexical_text(
    name: str,
    description: str,
    tags: Sequence[str] = (),
    parameters: Mapping[str, JsonValue] | None = None,
    examples: Sequence[str] = (),
) -> str:
    """The words that a request may repeat, names as they are: the lexical encoder splits them and keeps both forms."""
    arguments = (argument for argument, _ in arguments_of(parameters))
    return _joined((name, description, *tags, *arguments, *examples))


def aside_text(provider: str, parameters: Mapping[str, JsonValue] | None = None) -> str:
    """What tells less of a tool, and counts half: who provides it, and how its arguments are described."""
    return _joined((provider, *(description for _, description in arguments_of(parameters))))


def _has_han(text: str) -> bool:
    return _HAN.search(text) is not None


def arguments_of(parameters: Mapping[str, JsonValue] | None) -> Iterator[tuple[str, str]]:
    """Name and description of each argument; schemas come from strangers, and what is not one has none."""
    properties = (parameters or {}).get("properties")
    if not isinstance(properties, dict):
        return
    for name, schema in list(properties.items())[:MAX_ARGUMENTS]:
        description = schema.get("description") if isinstance(schema, dict) else None
        yield name, description if isinstance(description, str) else ""


def _joined(parts: Sequence[str]) -> str:
    return " ".join(stripped for part in parts if (stripped := part.strip()))[:_MAX_CHARS]
