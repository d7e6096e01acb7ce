"""Names of tools as functions for a model.

Models know a tool by a name of at most 64 letters, digits, `_` and `-`. `mcp:files/read_file` becomes
`mcp__files__read_file`. An id that such a name cannot hold becomes a readable part with a hash of the id, which does
not lead back to it.
"""

import hashlib
import re
from base64 import b32encode
from typing import Final

from skillbus.contracts.http import ToolReference
from skillbus.contracts.indexer.tools import ToolType

NAME_CHARACTERS: Final = 64
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARACTERS}}}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_BETWEEN: Final = "__"
_HASHED: Final = "x"
"""First part of a name with a hash. No type of tool is called so."""
_HASH_CHARACTERS: Final = 26
"""130 bits."""


def encode_name(tool: ToolReference) -> str:
    """Return the name of a tool for a model. Different tools have different names."""
    kind, _, rest = tool.id.partition(":")
    words = [kind, *(rest.split("/", 1) if kind == ToolType.MCP else [rest])]
    simple = _BETWEEN.join(words if tool.action is None else [*words, tool.action])
    if _NAME.fullmatch(simple) and decode_name(simple) == tool:
        return simple
    key = f"{tool.id}\0{tool.action or ''}".encode("utf-8", "surrogatepass")
    digest = b32encode(hashlib.sha256(key).digest()).decode().lower()[:_HASH_CHARACTERS]
    free = NAME_CHARACTERS - len(_HASHED) - 2 * len(_BETWEEN) - _HASH_CHARACTERS
    readable = _NOT_IN_NAMES.sub("_", _BETWEEN.join([*words[1:], tool.action or ""])).strip("_")[:free]
    return _BETWEEN.join((_HASHED, readable, digest))


def decode_name(name: str) -> ToolReference | None:
    """Return the tool that a name was made from; None for a name with a hash."""
    kind, _, rest = name.partition(_BETWEEN)
    first, between, second = rest.partition(_BETWEEN)
    if kind == ToolType.BUILTIN and rest:
        return ToolReference(id=f"{kind}:{rest}")
    if kind == ToolType.SKILL and first:
        return ToolReference(id=f"{kind}:{first}", action=second if between else None)
    if kind == ToolType.MCP and first and second:
        return ToolReference(id=f"{kind}:{first}/{second}")
    return None
