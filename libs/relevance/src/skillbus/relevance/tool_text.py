"""Text policy of tools: one text for the dense vector, and two for the sparse vector.

The dense text was chosen by recall@5, English and Chinese: name and description alone 0.377, 0.771; with tags and
argument names 0.406, 0.808; argument descriptions, or names split into words, add nothing; only the beginning of the
description 0.405, 0.815, and Chinese requests for English tools 0.686 instead of 0.600.
docs/retrieval.md lists the contribution of each part.
"""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from skillbus.common.characters import HAN_CHARACTER

MAX_ARGUMENTS = 64  # of a tool; more say nothing more about its purpose
_GIST_CHARS = 200  # of a description: the purpose comes first, and details dilute the vector of a sentence
_MAX_CHARS = 8_192  # of a text; the lexical encoder reads no more, and a dense vector of so much says nothing


def build_tool_dense_text(
    name: str, description: str, tags: Sequence[str] = (), parameters: Mapping[str, JsonValue] | None = None
) -> str:
    """Build a sentence for a sentence model: name, description, tags, argument names.

    `parameters` is the JSON Schema of the tool's arguments; only its `properties` are used. Tags in another language
    than the description are left to the lexical side: the vector of a mixed sentence is far from both (git-commit,
    生成Git提交信息, to 帮我提交代码: cosine .36; with git, commit, versioning behind it .22).
    """
    arguments = (argument for argument, _ in list_arguments(parameters))
    gist = description[:_GIST_CHARS]
    fitting = (tag for tag in tags if _has_han(tag) == _has_han(gist))
    return _join_parts((f"{name}.", gist, *fitting, *arguments))


def build_tool_lexical_text(
    name: str,
    description: str,
    tags: Sequence[str] = (),
    parameters: Mapping[str, JsonValue] | None = None,
    examples: Sequence[str] = (),
) -> str:
    """Build the text for BM25. Names stay whole: the lexical encoder splits them and keeps both forms."""
    arguments = (argument for argument, _ in list_arguments(parameters))
    return _join_parts((name, description, *tags, *arguments, *examples))


def build_tool_aside_text(provider: str, parameters: Mapping[str, JsonValue] | None = None) -> str:
    """Build the text for BM25 that counts half: the provider and the argument descriptions."""
    return _join_parts((provider, *(description for _, description in list_arguments(parameters))))


def list_arguments(parameters: Mapping[str, JsonValue] | None) -> Iterator[tuple[str, str]]:
    """Yield name and description of each argument. A malformed schema, as third parties send it, has none."""
    properties = (parameters or {}).get("properties")
    if not isinstance(properties, dict):
        return
    for name, schema in list(properties.items())[:MAX_ARGUMENTS]:
        description = schema.get("description") if isinstance(schema, dict) else None
        yield name, description if isinstance(description, str) else ""


def _has_han(text: str) -> bool:
    return HAN_CHARACTER.search(text) is not None


def _join_parts(parts: Sequence[str]) -> str:
    return " ".join(stripped for part in parts if (stripped := part.strip()))[:_MAX_CHARS]
