"""Where Python reaches for the network, read from its syntax tree."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from skillbus.indexer.domain.python_source import parse_python
from skillbus.indexer.domain.shell_wishes import wish_of_words, wishes_of_shell

_MODULES: Final = frozenset(
    [
        "requests",
        "httpx",
        "urllib.request",
        "urllib3",
        "http.client",
        "http.server",
        "socket",
        "socketserver",
        "ssl",
        "aiohttp",
        "websocket",
        "websockets",
        "ftplib",
        "smtplib",
        "imaplib",
        "poplib",
        "nntplib",
        "telnetlib",
        "xmlrpc",
        "paramiko",
        "pycurl",
        "grpc",
        "tornado",
        "dns",
        "boto3",
        "botocore",
        "openai",
        "anthropic",
        "playwright",
        "selenium",
        "httplib2",
        "requests_html",
    ]
)
"""With what is below them."""
_BARE: Final = frozenset({"urllib", "http"})
"""Packages of which only a part reaches out: imported whole, that part may be meant."""
_STARTERS: Final = frozenset(
    ["run", "call", "check_call", "check_output", "getoutput", "Popen", "system", "popen", "execvp"]
)
_IMPORT_LINE: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+([\w.]+)", re.MULTILINE)


def wishes_of_python(source: bytes) -> Iterator[tuple[int, str]]:
    """Line and module or command of each wish; of a source that does not parse, its lines that begin with an import."""
    tree = parse_python(source)
    if tree is None:
        yield from _of_lines(source.decode("utf-8", "replace"))
        return
    yield from sorted(wish for node in ast.walk(tree) for wish in _of_node(node))


def _of_lines(source: str) -> Iterator[tuple[int, str]]:
    line, end = 1, 0
    for found in _IMPORT_LINE.finditer(source):
        line, end = line + source.count("\n", end, found.start(1)), found.start(1)
        if module := _network_module(found[1]):
            yield line, module


def _of_node(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names):
            modules = [_network_module(alias.name) for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            modules = [_of_from(module, [alias.name for alias in names])]
        case ast.Call():
            modules = [_of_call(node)]
        case _:
            return
    for found in modules:
        if found:
            yield getattr(node, "lineno", 0), found


def _network_module(name: str, *, bare: bool = True) -> str | None:
    parts = name.split(".")
    below = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((module for module in below if module in _MODULES), name if bare and name in _BARE else None)


def _of_from(module: str, names: list[str]) -> str | None:
    whole = _network_module(module, bare=False)
    parts = (_network_module(f"{module}.{name}", bare=False) for name in names if module in _BARE)
    return whole or next(filter(None, parts), None)


def _of_call(call: ast.Call) -> str | None:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    words = [text for node in _parts(call) if (text := _text(node))]
    if called in {"__import__", "import_module"} and words:
        return _network_module(words[0])
    if called not in _STARTERS or not words:
        return None
    words = words[1:] if words[0] == "-m" else words  # sys.executable stood before it
    return wish_of_words(words) or next((wish for _, wish in wishes_of_shell(words[0])), None)


def _parts(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments, and the items of those that are lists, in their order."""
    for argument in call.args:
        yield from argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]


def _text(node: ast.expr) -> str:
    """A text as far as it stands in the source; what is put into it is "_"."""
    while isinstance(node, ast.BinOp):
        node = node.left
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "_" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
