"""Secrets that references may name, and the places that each may be sent to. Only the operator lists them.

    NAME=place,place; file:PATH=place

`NAME` is an environment variable. `PATH` is a file or a folder below the folder of secrets. A place is a host, reached
over TLS, with or without a port; `http://host` allows a connection without TLS; `stdio` is the environment of an MCP
server that skillbus starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from skillbus.contracts.network import split_place

SETTING: Final = "SKILLBUS_SECRETS"
_PORTS: Final[Mapping[str, int]] = {"https": 443, "http": 80}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Destination(NamedTuple):
    """Place that a secret is sent to."""

    scheme: str
    host: str
    port: int | None = None
    """Port; None is the scheme's own in a request, and any port in a grant."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = host if self.port is None else f"{host}:{self.port}"
        return place if self.scheme in {"https", "stdio"} else f"{self.scheme}://{place}"


STDIO: Final = Destination("stdio", "stdio")
"""The environment of a child process."""
DEFAULT_GRANTS: Final[Mapping[str, frozenset[Destination]]] = {
    "OPENAI_API_KEY": frozenset({Destination("https", "api.openai.com", 443)}),
    "DASHSCOPE_API_KEY": frozenset(
        Destination("https", f"{host}.aliyuncs.com", 443) for host in ("dashscope", "dashscope-intl")
    ),
    "ANTHROPIC_API_KEY": frozenset({Destination("https", "api.anthropic.com", 443)}),
    "GEMINI_API_KEY": frozenset({Destination("https", "generativelanguage.googleapis.com", 443)}),
}
"""Keys of well-known providers, each for its own hosts. An entry of the operator replaces the one of the same name."""


@dataclass(frozen=True, slots=True)
class SecretGrants:
    """References to secrets with their places."""

    variables: Mapping[str, frozenset[Destination]] = field(default_factory=dict)
    files: Mapping[Path, frozenset[Destination]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "SecretGrants":
        """Parse grants, added to `DEFAULT_GRANTS`. Raises ValueError, with a message that quotes no value."""
        variables = dict(DEFAULT_GRANTS)
        files: dict[Path, frozenset[Destination]] = {}
        for number, entry in enumerate(filter(None, map(str.strip, re.split(r"[;\n]", text))), 1):
            name, equals, listed = (part.strip() for part in entry.partition("="))
            if not equals:
                raise ValueError(f"entry {number} has no `=`: write NAME=host, or file:PATH=host")
            places = frozenset(_parse_place(place.strip(), number) for place in listed.split(",") if place.strip())
            kind, colon, path = name.partition(":")
            if colon and kind == "file" and path:
                files[Path(path)] = places
            elif _VARIABLE.fullmatch(variable := path if colon and kind == "env" else name):
                variables[variable] = places
            else:
                raise ValueError(f"entry {number} names neither an environment variable nor file:PATH")
        return cls(variables, files)

    def find_file_places(self, file: Path, folder: Path) -> frozenset[Destination] | None:
        """Return the places of a file of the folder of secrets: those of the closest entry. None without an entry."""
        listed = [granted for granted in self.files if file.is_relative_to(folder / granted)]
        return self.files[max(listed, key=lambda granted: len((folder / granted).parts))] if listed else None


def is_place_of(destination: Destination, places: frozenset[Destination]) -> bool:
    """Return True if one of the places is the destination."""
    scheme, host, port = destination
    host = host.lower().removesuffix(".")
    port = port or _PORTS.get(scheme)
    return Destination(scheme, host, port) in places or Destination(scheme, host) in places


def _parse_place(text: str, entry: int) -> Destination:
    if text == STDIO.host:
        return STDIO
    scheme, _, rest = text.rpartition("://")
    scheme = scheme.lower() or "https"
    try:
        port = _PORTS[scheme]
        if rest.endswith("]") or ":" not in rest:
            return Destination(scheme, split_place(rest, port)[0])
        return Destination(scheme, *split_place(rest))
    except (KeyError, ValueError):
        raise ValueError(f"entry {entry} has a place that is no host, host:port, http://host or stdio") from None
