"""Report on a package's files for an operator, made without running any of them.

It lists executables, scripts, and uses of the network in scripts of Python, JavaScript and the shell.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from skillbus.contracts.indexer.skill_record import NetworkCallSite, Runtime, SkillScan
from skillbus.indexer.domain.package.files import PackageFile, PackageFiles, Script, detect_runtime
from skillbus.indexer.domain.package.literals import parse_python

_SHOWN: Final = 100
_WHAT_CHARACTERS: Final = 100
_SCRIPT_BYTES: Final = 256 * 1024
_ALL_SCRIPTS_BYTES: Final = 1024 * 1024
"""Script source scanned for one skill: at most three seconds. No public skill has half of it."""
_EXECUTABLE: Final = (
    b"\x7fELF",
    b"MZ",
    b"\0asm",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)
"""First bytes of ELF, PE, WebAssembly, Mach-O (32 and 64 bits, either byte order) and universal binaries."""
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
"""Programs that use the network with one of these words after them."""
_FETCHING_RUNNERS: Final = frozenset(["npx", "bunx", "uvx"])
_COMMAND_PREFIXES: Final = frozenset(
    ["if", "then", "else", "elif", "while", "until", "do", "!", "time", "sudo", "exec", "command", "env", "nohup"]
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_QUOTED: Final = re.compile(r"\\.|'[^']*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|(?<!\S)#[^\n]*", re.DOTALL)
_COMMAND_SEPARATOR: Final = re.compile(r"\$\(|[;&|(){}`]")
_HEREDOC: Final = re.compile(r"(?<!<)<<-?[ \t]*['\"]?(\w+)['\"]?")
_SHELL: Final = re.compile(r"\b(?:ba|z|da)?sh\b")
_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/")
_PYTHON_MODULES: Final[frozenset[str]] = frozenset().union(
    ["requests", "requests_html", "httpx", "httplib2", "urllib.request", "urllib3", "http.client", "http.server"],
    ["aiohttp", "tornado", "pycurl", "grpc", "xmlrpc", "websocket", "websockets", "playwright", "selenium"],
    ["socket", "socketserver", "ssl", "dns", "paramiko", "telnetlib", "ftplib", "smtplib", "imaplib", "poplib"],
    ["nntplib", "boto3", "botocore", "openai", "anthropic"],
)
"""Modules of the network, with their submodules."""
_BARE: Final = frozenset({"urllib", "http"})
"""Packages of which only a part uses the network; an import of the whole may mean that part."""
_PYTHON_STARTERS: Final = frozenset(
    ["run", "call", "check_call", "check_output", "getoutput", "Popen", "system", "popen", "execvp"]
)
_IMPORT_LINE: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+([\w.]+)", re.MULTILINE)
_NODE_MODULES: Final[frozenset[str]] = frozenset().union(
    ["http", "https", "http2", "net", "tls", "dgram", "dns", "axios", "node-fetch", "undici", "got", "request", "ky"],
    ["superagent", "needle", "ws", "socket.io-client", "puppeteer", "playwright", "nodemailer", "openai"],
)
_SCOPES: Final = ("@anthropic-ai/", "@aws-sdk/", "@octokit/")
_GLOBALS: Final = frozenset({"fetch", "WebSocket", "XMLHttpRequest", "EventSource"})
_NODE_STARTERS: Final = frozenset(["exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync"])
_ARGUMENT_TOKENS: Final = 40
"""Tokens of a call that are searched for its arguments."""
_TOKEN: Final = re.compile(
    # An unclosed text ends with its line or the file, so that the time stays linear in the size of the source.
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|(?P<text>'[^'\\\n]*(?:\\(?:.|\Z)[^'\\\n]*)*'?|\"[^\"\\\n]*(?:\\(?:.|\Z)[^\"\\\n]*)*\"?|`[^`\\]*(?:\\(?:.|\Z)[^`\\]*)*`?)"
    r"|(?P<word>[A-Za-z_$][\w$]*)|(?P<sign>[^\s\w])",
    re.DOTALL,
)


def scan_package(files: PackageFiles, scripts: Sequence[Script]) -> SkillScan:
    """Scan all files of a skill. Each list is cut, so that the report has some 100 KiB at most. Raises ArchiveError."""
    every = sorted(files.by_path.values(), key=lambda file: file.path)
    scanner = _NetworkScanner(files)
    return SkillScan(
        files=len(every),
        unpacked_bytes=sum(file.size_bytes for file in every),
        scripts=tuple(script.path for script in scripts[:_SHOWN]),
        executables=tuple(islice((file.path for file in every if _is_executable(files.read(file.path))), _SHOWN)),
        network=tuple(islice((wish for file in every for wish in scanner.scan_file(file)), _SHOWN)),
        unread=tuple(scanner.unread[:_SHOWN]),
    )


class _NetworkScanner:
    """Scans scripts until the budget of bytes is used up."""

    def __init__(self, files: PackageFiles) -> None:
        self._files = files
        self._left_bytes = _ALL_SCRIPTS_BYTES
        self.unread: list[str] = []

    def scan_file(self, file: PackageFile) -> Iterator[NetworkCallSite]:
        """Yield the uses of the network in a file. A file that is not a script has none."""
        runtime = detect_runtime(file.path, self._files.read)
        if runtime is None:
            return
        if file.size_bytes > min(_SCRIPT_BYTES, self._left_bytes):
            self.unread.append(file.path)
            return
        self._left_bytes -= file.size_bytes
        source = self._files.read(file.path)
        if runtime is Runtime.PYTHON:
            uses = scan_python(source)
        else:
            text = source.decode("utf-8", "replace")
            uses = scan_javascript(text) if runtime is Runtime.NODE else scan_shell(text)
        for line, what in dict.fromkeys(uses):
            yield NetworkCallSite(file=file.path, line=line, what=what[:_WHAT_CHARACTERS])


def _is_executable(data: bytes) -> bool:
    # A text may begin with MZ: a PE file has NUL bytes among its first 64.
    return data.startswith(_EXECUTABLE) and (data[:2] != b"MZ" or b"\0" in data[:64])


def scan_shell(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and command of each use. Text that is quoted or written into a file does not count."""
    # Comments, quoted texts and here-documents are removed; lines keep their numbers.
    stripped = _QUOTED.sub(_strip_text, "\n".join(_strip_heredocs(source.splitlines())))
    for number, line in enumerate(stripped.split("\n"), 1):
        for command in _COMMAND_SEPARATOR.split(line):
            if use := _classify_command(command.split()):
                yield number, use
        if _SOCKET.search(line):
            yield number, "/dev/tcp"


def scan_command(words: list[str]) -> str | None:
    """Return the use of the network by a program with these arguments. The commands of `sh -c` are scanned."""
    if len(words) > 1 and _SHELL.fullmatch(words[0].rpartition("/")[2]):
        return next((use for _, use in scan_shell("\n".join(words[1:]))), None)
    return _classify_command(words)


def _classify_command(words: list[str]) -> str | None:
    while words and (words[0] in _COMMAND_PREFIXES or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if not words:
        return None
    name, rest = words[0].rpartition("/")[2], words[1:]
    if re.fullmatch(r"python[\d.]*", name) and rest[:1] == ["-m"]:
        name, rest = "".join(rest[1:2]), rest[2:]
    if name in _CLIENTS or name in _FETCHING_RUNNERS:
        return name
    verb = next((word for word in rest if word in _INSTALLERS.get(name, ())), None)
    return f"{name} {verb}" if verb else None


def _strip_text(found: re.Match[str]) -> str:
    text = found.group()
    if text[0] == "\\":
        return " " if text[1] == "\n" else text
    if text[0] == '"' and ("$(" in text or "`" in text):
        return text[1:-1]  # the command inside is run
    if len(text) > 1 and text[0] in "\"'" and re.fullmatch(r"[\w./-]+", text[1:-1]):
        return text[1:-1]  # the word needs no quotes
    return "_" + "\n" * text.count("\n")


def _strip_heredocs(lines: list[str]) -> Iterator[str]:
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


def scan_python(source: bytes) -> Iterator[tuple[int, str]]:
    """Yield line and module or command of each use. If the source does not parse, only its import lines are scanned."""
    tree = parse_python(source)
    if tree is not None:
        yield from sorted(use for node in ast.walk(tree) for use in _scan_node(node))
        return
    text = source.decode("utf-8", "replace")
    line, end = 1, 0
    for found in _IMPORT_LINE.finditer(text):
        line, end = line + text.count("\n", end, found.start(1)), found.start(1)
        if module := _python_network_module(found[1]):
            yield line, module


def _scan_node(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names):
            modules = [_python_network_module(alias.name) for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            imported = [module, *(f"{module}.{alias.name}" for alias in names if module in _BARE)]
            found_modules = (_python_network_module(name, bare=False) for name in imported)
            modules = [next(filter(None, found_modules), None)]
        case ast.Call():
            modules = [_scan_call(node)]
        case _:
            return
    for found in modules:
        if found:
            yield getattr(node, "lineno", 0), found


def _python_network_module(name: str, *, bare: bool = True) -> str | None:
    parts = name.split(".")
    below = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((module for module in below if module in _PYTHON_MODULES), name if bare and name in _BARE else None)


def _scan_call(call: ast.Call) -> str | None:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    arguments = [
        item
        for argument in call.args
        for item in (argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument])
    ]
    words = [text for node in arguments if (text := _read_text(node))]
    if called in {"__import__", "import_module"} and words:
        return _python_network_module(words[0])
    if called not in _PYTHON_STARTERS or not words:
        return None
    words = words[1:] if words[0] == "-m" else words  # sys.executable precedes it
    return scan_command(words) or next((use for _, use in scan_shell(words[0])), None)


def _read_text(node: ast.expr) -> str:
    """Return the literal part of a text, with "_" for each inserted value."""
    while isinstance(node, ast.BinOp):
        node = node.left
    if isinstance(node, ast.JoinedStr):
        return "".join(_read_text(part) or "_" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def scan_javascript(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and module, global or command of each use. Comments and texts do not count."""
    tokens, line, end = list[_Token](), 1, 0
    for found in _TOKEN.finditer(source):
        line, end = line + source.count("\n", end, found.start()), found.start()
        if found.lastgroup:
            text = found.group()
            tokens.append(_Token(found.lastgroup, text.strip("'\"`") if found.lastgroup == "text" else text, line))
    for at, token in enumerate(tokens):
        if token.kind == "word" and (use := _scan_word(tokens, at)):
            yield token.line, use


def _scan_word(tokens: Sequence[_Token], at: int) -> str | None:
    word = tokens[at].text
    before = [token.text for token in tokens[max(at - 2, 0) : at]]
    behind = tokens[at + 1 : at + 1 + _ARGUMENT_TOKENS]
    texts = [token for token in behind[:2] if token.kind == "text"]
    if word in {"require", "import", "from"} and texts:
        module = texts[0].text.removeprefix("node:")
        package = module if module.startswith("@") else module.split("/")[0]
        return module if package in _NODE_MODULES or module.startswith(_SCOPES) else None
    called = bool(behind) and behind[0].text == "("
    if word in _GLOBALS and (called or before[-1:] == ["new"]) and _is_global(before):
        return word
    if word in _NODE_STARTERS and called:
        words = [token.text for token in _until_closed(behind) if token.kind == "text"]
        if words:
            return scan_command(words) or next((use for _, use in scan_shell(words[0])), None)
    return None


def _is_global(before: Sequence[str]) -> bool:
    """Return True if the two tokens before a name do not give it another meaning."""
    if before[-1:] == ["."]:
        return before[0] in {"globalThis", "window", "self"}
    return before[-1:] != ["function"]


def _until_closed(tokens: Sequence[_Token]) -> Iterator[_Token]:
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
        if depth == 0:
            return
        yield token
