"""Where JavaScript reaches for the network, read from its tokens."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from skillbus.indexer.domain.shell_wishes import wish_of_words, wishes_of_shell

_MODULES: Final = frozenset(
    [
        "http",
        "https",
        "http2",
        "net",
        "tls",
        "dgram",
        "dns",
        "axios",
        "node-fetch",
        "undici",
        "got",
        "ws",
        "request",
        "superagent",
        "ky",
        "needle",
        "socket.io-client",
        "puppeteer",
        "playwright",
        "nodemailer",
        "openai",
    ]
)
_SCOPES: Final = ("@anthropic-ai/", "@aws-sdk/", "@octokit/")
_GLOBALS: Final = frozenset({"fetch", "WebSocket", "XMLHttpRequest", "EventSource"})
_STARTERS: Final = frozenset(["exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync"])
_ARGUMENT_TOKENS: Final = 40
"""How far the arguments of a call are looked at."""
_TOKEN: Final = re.compile(
    # What is not closed ends with its line or the file: tried again from each place in it, it would take for ever.
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|(?P<text>'[^'\\\n]*(?:\\(?:.|\Z)[^'\\\n]*)*'?|\"[^\"\\\n]*(?:\\(?:.|\Z)[^\"\\\n]*)*\"?|`[^`\\]*(?:\\(?:.|\Z)[^`\\]*)*`?)"
    r"|(?P<word>[A-Za-z_$][\w$]*)|(?P<sign>[^\s\w])",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def wishes_of_node(source: str) -> Iterator[tuple[int, str]]:
    """Line and module, global or command of each wish. Comments and what texts say are none."""
    tokens = list(_tokens(source))
    for at, token in enumerate(tokens):
        if token.kind == "word" and (wish := _wish_at(tokens, at)):
            yield token.line, wish


def _tokens(source: str) -> Iterator[_Token]:
    line, end = 1, 0
    for found in _TOKEN.finditer(source):
        line, end = line + source.count("\n", end, found.start()), found.start()
        if found.lastgroup:
            text = found.group()
            yield _Token(found.lastgroup, text.strip("'\"`") if found.lastgroup == "text" else text, line)


def _wish_at(tokens: Sequence[_Token], at: int) -> str | None:
    word = tokens[at].text
    before = [token.text for token in tokens[max(at - 2, 0) : at]]
    behind = tokens[at + 1 : at + 1 + _ARGUMENT_TOKENS]
    texts = [token for token in behind[:2] if token.kind == "text"]
    if word in {"require", "import", "from"} and texts:
        return _network_module(texts[0].text)
    called = bool(behind) and behind[0].text == "("
    if word in _GLOBALS and (called or before[-1:] == ["new"]) and _is_global(before):
        return word
    if word in _STARTERS and called:
        return _of_command([token for token in _until_closed(behind) if token.kind == "text"])
    return None


def _is_global(before: Sequence[str]) -> bool:
    """Whether the two tokens before a name leave it what everyone knows by it."""
    if before[-1:] == ["."]:
        return before[0] in {"globalThis", "window", "self"}
    return before[-1:] != ["function"]


def _network_module(name: str) -> str | None:
    plain = name.removeprefix("node:")
    package = plain if plain.startswith("@") else plain.split("/")[0]
    return plain if package in _MODULES or plain.startswith(_SCOPES) else None


def _until_closed(tokens: Sequence[_Token]) -> Iterator[_Token]:
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
        if depth == 0:
            return
        yield token


def _of_command(texts: Sequence[_Token]) -> str | None:
    if not texts:
        return None
    words = [token.text for token in texts]
    return wish_of_words(words) or next((wish for _, wish in wishes_of_shell(words[0])), None)
