"""`except Exception` hides what nobody thought of, so it stands only where that is answered for.

One that ends with a plain `raise` hides nothing.
"""

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from .tree import ROOT, named, product_modules

ALLOWED: Final = {
    "libs/common/src/skillbus/common/background.py": "supervises background work",
    "libs/common/src/skillbus/common/bus/responder.py": "every request is answered",
    "libs/common/src/skillbus/common/bus/events.py": "a failed event is tried again, then kept for people",
    "libs/vectors/src/skillbus/vectors/edge/calls.py": "the engine raises exceptions of no class of its own",
    "libs/vectors/src/skillbus/vectors/server/nodes.py": "tells an engine's failure from that of its caller",
    "services/agent/src/skillbus/agent/adapters/mcp/session.py": "the SDK raises what a server makes of it",
    "services/agent/src/skillbus/agent/domain/programs/session.py": "every request of a program is answered",
    "services/agent/src/skillbus/agent/domain/servers/follower.py": "supervises the following of a server",
    "services/embedder/src/skillbus/embedder/adapters/local/onnx/files.py": "model packages raise their own classes",
    "services/embedder/src/skillbus/embedder/domain/inference/batcher.py": "a model raises anything",
    "services/embedder/src/skillbus/embedder/domain/inference/model_pool.py": "a model's loader raises anything",
    "services/gateway/src/skillbus/gateway/adapters/boundary.py": "every HTTP request is answered",
    "services/retriever/src/skillbus/retriever/adapters/tokenizers.py": "tokenizers raises plain Exception",
    "services/sandbox/src/skillbus/sandbox/adapters/bubblewrap/isolation.py": "supervises cleanups",
    "services/sandbox/src/skillbus/sandbox/adapters/inside/agent_python.py": "reports what ends a script",
    "services/sandbox/src/skillbus/sandbox/adapters/inside/program_python.py": "reports what ends a program",
    "src/skillbus/standalone/workers/channel.py": "every call of another process is answered",
}


def broad_excepts(source: str) -> Iterator[int]:
    """Lines of handlers that catch everything."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _passes_on(node):
            yield node.lineno


def _is_broad(caught: ast.expr | None) -> bool:
    match caught:
        case None | ast.Name("Exception" | "BaseException") | ast.Attribute(attr="Exception" | "BaseException"):
            return True
        case ast.Tuple(elements):
            return any(map(_is_broad, elements))
    return False


def _passes_on(handler: ast.ExceptHandler) -> bool:
    match handler.body[-1]:
        case ast.Raise(exc=None):
            return True
    return False


def test_everything_is_caught_only_where_that_is_answered_for() -> None:
    found = {
        f"{named(file)}:{line}"
        for file in product_modules()
        if named(file) not in ALLOWED
        for line in broad_excepts(file.read_text(encoding="utf-8"))
    }
    assert not found, "catch what can be dealt with here, or say in ALLOWED why everything must be caught"


def test_no_permission_outlives_its_use() -> None:
    used = {name for name in ALLOWED if any(broad_excepts((ROOT / name).read_text(encoding="utf-8")))}
    assert used == ALLOWED.keys()


@pytest.mark.parametrize(
    "caught", ["", " Exception", " BaseException as e", " (KeyError, Exception)", " builtins.Exception"]
)
def test_each_way_to_catch_everything_is_seen(caught: str) -> None:
    assert list(broad_excepts(f"try:\n    pass\nexcept{caught}:\n    pass\n")) == [3]


@pytest.mark.parametrize("caught", [" KeyError", " (KeyError, ExceptionGroup)"])
def test_catching_what_is_known_is_no_finding(caught: str) -> None:
    assert not list(broad_excepts(f"try:\n    pass\nexcept{caught}:\n    pass\n"))


def test_what_is_passed_on_is_no_finding() -> None:
    assert not list(broad_excepts("try:\n    pass\nexcept BaseException:\n    undo()\n    raise\n"))
    assert list(broad_excepts("try:\n    pass\nexcept Exception as e:\n    raise ValueError from e\n"))
