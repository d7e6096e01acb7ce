"""Where a command line reaches for the network, told by its commands and without running it."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from skillbus.indexer.domain.package.literals import parse_python

_CLIENTS: Final = frozenset(
    ["curl", "wget", "nc", "ncat", "netcat", "socat", "telnet", "ssh", "scp", "sftp", "ftp", "rsync", "aria2c"]
)
_INSTALLERS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(["pip", "pip3", "pipx", "gem", "cargo", "brew"], frozenset({"install", "download"})),
    **dict.fromkeys(["npm", "pnpm", "yarn", "bun"], frozenset({"install", "i", "ci", "add", "exec", "dlx"})),
    **dict.fromkeys(["apt", "apt-get", "apk", "dnf", "yum"], frozenset({"install", "update", "add"})),
    "uv": frozenset({"add", "sync", "pip", "tool"}),
    "go": frozenset({"get", "install"}),
    "git": frozenset({"clone", "fetch", "pull", "push", "ls-remote"}),
}
"""Programs that reach out when one of these words is behind them."""
_FETCHING_RUNNERS: Final = frozenset(["npx", "bunx", "uvx"])
_BEFORE_A_COMMAND: Final = frozenset(
    ["if", "then", "else", "elif", "while", "until", "do", "!", "time", "sudo", "exec", "command", "env", "nohup"]
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_UNREAD: Final = re.compile(r"\\.|'[^']*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|(?<!\S)#[^\n]*", re.DOTALL)
_BETWEEN_COMMANDS: Final = re.compile(r"\$\(|[;&|(){}`]")
_HEREDOC: Final = re.compile(r"(?<!<)<<-?[ \t]*['\"]?(\w+)['\"]?")
_SHELL: Final = re.compile(r"\b(?:ba|z|da)?sh\b")
_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/")
_PYTHON_MODULES: Final = frozenset(
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
_PYTHON_STARTERS: Final = frozenset(
    ["run", "call", "check_call", "check_output", "getoutput", "Popen", "system", "popen", "execvp"]
)
_IMPORT_LINE: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+([\w.]+)", re.MULTILINE)
_NODE_MODULES: Final = frozenset(
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
_NODE_STARTERS: Final = frozenset(["exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync"])
_ARGUMENT_TOKENS: Final = 40
"""How far the arguments of a call are looked at."""
_TOKEN: Final = re.compile(
    # What is not closed ends with its line or the file: tried again from each place in it, it would take for ever.
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|(?P<text>'[^'\\\n]*(?:\\(?:.|\Z)[^'\\\n]*)*'?|\"[^\"\\\n]*(?:\\(?:.|\Z)[^\"\\\n]*)*\"?|`[^`\\]*(?:\\(?:.|\Z)[^`\\]*)*`?)"
    r"|(?P<word>[A-Za-z_$][\w$]*)|(?P<sign>[^\s\w])",
    re.DOTALL,
)


def wishes_of_shell(source: str) -> Iterator[tuple[int, str]]:
    """Line and command of each wish. What is only quoted or written into a file is none."""
    for number, line in enumerate(_without_texts(source).split("\n"), 1):
        for command in _BETWEEN_COMMANDS.split(line):
            wish = _wish_of(command.split())
            if wish:
                yield number, wish
        if _SOCKET.search(line):
            yield number, "/dev/tcp"


def wish_of_words(words: list[str]) -> str | None:
    """What a program that is started with these arguments reaches out with; a shell's `-c` is looked into."""
    if len(words) > 1 and _SHELL.fullmatch(_name(words[0])):
        return next((wish for _, wish in wishes_of_shell("\n".join(words[1:]))), None)
    return _wish_of(words)


def _wish_of(words: list[str]) -> str | None:
    while words and (words[0] in _BEFORE_A_COMMAND or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if not words:
        return None
    name, rest = _name(words[0]), words[1:]
    if re.fullmatch(r"python[\d.]*", name) and rest[:1] == ["-m"]:
        name, rest = "".join(rest[1:2]), rest[2:]
    if name in _CLIENTS or name in _FETCHING_RUNNERS:
        return name
    verb = next((word for word in rest if word in _INSTALLERS.get(name, ())), None)
    return f"{name} {verb}" if verb else None


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _without_texts(source: str) -> str:
    """The source without comments, quoted texts and here-documents; lines keep their numbers."""
    return _UNREAD.sub(_blank, "\n".join(_without_heredocs(source.splitlines())))


def _blank(found: re.Match[str]) -> str:
    text = found.group()
    if text[0] == "\\":
        return " " if text[1] == "\n" else text
    if text[0] == '"' and ("$(" in text or "`" in text):
        return text[1:-1]  # a command in there is run
    if len(text) > 1 and text[0] in "\"'" and re.fullmatch(r"[\w./-]+", text[1:-1]):
        return text[1:-1]  # a word that needed no quotes
    return "_" + "\n" * text.count("\n")


def _without_heredocs(lines: list[str]) -> Iterator[str]:
    last = {line.strip(): number for number, line in enumerate(lines)}
    until: str | None = None
    for number, line in enumerate(lines):
        if until is not None:
            until = None if line.strip() == until else until
            yield ""
            continue
        opening = _HEREDOC.search(line)
        if opening and last.get(opening[1], -1) > number and not _SHELL.search(line[: opening.start()]):
            until = opening[1]
        yield line


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
        if module := _python_network_module(found[1]):
            yield line, module


def _of_node(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names):
            modules = [_python_network_module(alias.name) for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            modules = [_of_from(module, [alias.name for alias in names])]
        case ast.Call():
            modules = [_of_call(node)]
        case _:
            return
    for found in modules:
        if found:
            yield getattr(node, "lineno", 0), found


def _python_network_module(name: str, *, bare: bool = True) -> str | None:
    parts = name.split(".")
    below = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((module for module in below if module in _PYTHON_MODULES), name if bare and name in _BARE else None)


def _of_from(module: str, names: list[str]) -> str | None:
    whole = _python_network_module(module, bare=False)
    parts = (_python_network_module(f"{module}.{name}", bare=False) for name in names if module in _BARE)
    return whole or next(filter(None, parts), None)


def _of_call(call: ast.Call) -> str | None:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    words = [text for node in _parts(call) if (text := _text(node))]
    if called in {"__import__", "import_module"} and words:
        return _python_network_module(words[0])
    if called not in _PYTHON_STARTERS or not words:
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
        return _node_network_module(texts[0].text)
    called = bool(behind) and behind[0].text == "("
    if word in _GLOBALS and (called or before[-1:] == ["new"]) and _is_global(before):
        return word
    if word in _NODE_STARTERS and called:
        return _of_command([token for token in _until_closed(behind) if token.kind == "text"])
    return None


def _is_global(before: Sequence[str]) -> bool:
    """Whether the two tokens before a name leave it what everyone knows by it."""
    if before[-1:] == ["."]:
        return before[0] in {"globalThis", "window", "self"}
    return before[-1:] != ["function"]


def _node_network_module(name: str) -> str | None:
    plain = name.removeprefix("node:")
    package = plain if plain.startswith("@") else plain.split("/")[0]
    return plain if package in _NODE_MODULES or plain.startswith(_SCOPES) else None


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
