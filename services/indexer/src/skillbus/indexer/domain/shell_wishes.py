"""Where a command line reaches for the network, told by its commands and without running it."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

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
