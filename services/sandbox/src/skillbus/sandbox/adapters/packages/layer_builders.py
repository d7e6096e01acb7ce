"""Layers filled by uv and npm, which download and unpack and run nothing of what they get.

uv takes wheels only: a source distribution would be built by its own code. npm runs no scripts of packages. Both are
told by the settings alone where packages come from, see no configuration of the machine and none of this process's
environment but its proxies and certificates, and keep no cache.
"""

import base64
import json
import os
import re
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from skillbus.sandbox.adapters.packages.bounded_program import Program, run_program
from skillbus.sandbox.domain.errors import DependenciesUnavailable
from skillbus.sandbox.domain.packages.requirements import Requirements, without_user_info

DEPS: Final = "deps"
"""Folder of what a builder filled, in the folder that it worked in."""
_SAID_CHARACTERS: Final = 1000
_PASSED_ON: Final = (
    "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_HTTP_S: Final = 15
_RETRIES: Final = 1


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """What a build may take. What is downloaded lies beside what is unpacked, so that it may write twice the layer."""

    wall_s: float
    layer_bytes: int


class Builder(Protocol):
    """Makes the packages of one runtime into a folder."""

    @property
    def program(self) -> str | None:
        """What fetches them; None when the machine has none."""
        ...

    @property
    def index(self) -> str:
        """Where packages come from, without who asks."""
        ...

    @property
    def layer_bytes(self) -> int:
        """How large the layer may be."""
        ...

    async def build(self, requirements: Requirements, interpreter: Path, folder: Path) -> None:
        """Fill `deps` in `folder`, which is empty and may be filled with other files as well.

        Raises:
            DependenciesUnavailable: with the program's words, without secrets.
        """
        ...


class UvBuilder:
    """Wheels by `uv pip install --target`."""

    def __init__(self, index_url: str | None, limits: BuildLimits, program: str | None = None) -> None:
        self._index_url = index_url
        self._limits = limits
        self.program = program or find_uv()

    @property
    def index(self) -> str:
        return without_user_info(self._index_url or "uv's own")

    async def build(self, requirements: Requirements, interpreter: Path, folder: Path) -> None:
        if self.program is None:
            raise DependenciesUnavailable(
                "uv is not installed where the sandbox runs: put it on its PATH, it fetches Python packages"
            )
        folder.joinpath("requirements.txt").write_text(requirements.listed)
        hashed = ("--require-hashes",) if "--hash=" in requirements.listed else ()
        argv = (
            self.program, "pip", "install", "--quiet", "--target", DEPS, "--python", str(interpreter),
            "--only-binary", ":all:", "--no-config", "--no-sources", "--no-python-downloads", "--compile-bytecode",
            "--keyring-provider", "disabled", "--color", "never", "--no-progress", *hashed, "-r", "requirements.txt",
        )  # fmt: skip
        environment = _environment(folder) | {
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_HTTP_TIMEOUT": str(_HTTP_S),
            "UV_HTTP_RETRIES": str(_RETRIES),
        }
        if self._index_url is not None:
            environment["UV_DEFAULT_INDEX"] = self._index_url  # not an argument: those are seen by the whole machine
        if _SYSTEM_CERTIFICATES.is_file() and "SSL_CERT_FILE" not in environment:
            environment["UV_SYSTEM_CERTS"] = "1"
        code, said = await run_program(Program(argv, folder, environment), self._limits.wall_s, 2 * self.layer_bytes)
        if code != 0:
            raise DependenciesUnavailable(f"uv: {told(said, _secrets(self._index_url))}")
        folder.joinpath(DEPS).mkdir(exist_ok=True)
        folder.joinpath(DEPS, ".lock").unlink(missing_ok=True)

    @property
    def layer_bytes(self) -> int:
        return self._limits.layer_bytes


class NpmBuilder:
    """Packages by `npm install`, or `npm ci` when there is a lock."""

    def __init__(self, registry: str | None, limits: BuildLimits, program: str | None = None) -> None:
        self._registry = registry
        self._limits = limits
        self.program = program or shutil.which("npm", path=_PATH) or shutil.which("npm")

    @property
    def index(self) -> str:
        return without_user_info(self._registry or "npm's own")

    async def build(self, requirements: Requirements, interpreter: Path, folder: Path) -> None:
        if self.program is None:
            raise DependenciesUnavailable(
                "npm is not installed where the sandbox runs: put it on its PATH, it fetches Node packages"
            )
        deps = folder / DEPS
        deps.mkdir()
        deps.joinpath("package.json").write_text(requirements.listed)
        if requirements.lock:
            deps.joinpath("package-lock.json").write_text(requirements.lock)
        settings = folder / "npmrc"
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{line}\n" for line in npm_settings(self._registry)))
        argv = (
            self.program, "ci" if requirements.lock else "install", "--prefix", str(deps), "--ignore-scripts",
            "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--no-bin-links", "--no-progress",
            "--no-color", "--allow-git=none", "--allow-remote=none", "--allow-file=none", "--allow-directory=none",
            "--omit-lockfile-registry-resolved",
        )  # fmt: skip
        environment = _environment(folder) | {
            "PATH": f"{interpreter.parent}:{_PATH}",
            "npm_config_cache": str(folder / "cache"),
            "npm_config_userconfig": str(settings),
            "npm_config_globalconfig": str(folder / "none"),
            "npm_config_git": str(folder / "none"),
            "npm_config_logs_max": "0",
            "npm_config_fetch_timeout": str(1000 * _HTTP_S),
            "npm_config_fetch_retries": str(_RETRIES),
            "npm_config_fetch_retry_mintimeout": "1000",
        }
        code, said = await run_program(Program(argv, folder, environment), self._limits.wall_s, 2 * self.layer_bytes)
        if code != 0:
            raise DependenciesUnavailable(f"npm: {told(said, _secrets(self._registry))}")
        _check_origins(deps)

    @property
    def layer_bytes(self) -> int:
        return self._limits.layer_bytes


def find_uv() -> str | None:
    """uv on PATH, or beside this Python."""
    return shutil.which("uv") or shutil.which("uv", path=sysconfig.get_path("scripts"))


def npm_settings(registry: str | None) -> Iterator[str]:
    """An `.npmrc`: who asks is kept apart from the registry's address, which npm writes into its files."""
    if registry is None:
        return
    parts = urlsplit(registry)
    place = parts.netloc.rpartition("@")[2]
    path = f"{parts.path.rstrip('/')}/"
    yield f"registry={urlunsplit((parts.scheme, place, path, parts.query, ''))}"
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        yield f"//{place}{path}:_auth={base64.b64encode(pair.encode()).decode()}"


def told(said: str, secrets: tuple[str, ...]) -> str:
    """A program's words as they may be told: without secrets, on one line, cut."""
    for secret in secrets:
        said = said.replace(secret, "***")
    words = re.sub(r"\x1b\[[0-9;]*m|npm (?:error|warn) ?", "", without_user_info(said))
    flat = " ".join(words.split()) or "it failed without a word"
    return flat if len(flat) <= _SAID_CHARACTERS else f"{flat[:_SAID_CHARACTERS]}…"


def _secrets(url: str | None) -> tuple[str, ...]:
    """Passwords that a URL carries, as they stand in it and as they are sent; a user alone may be a token."""
    parts = urlsplit(url or "")
    written = [part for part in (parts.password, None if parts.password else parts.username) if part]
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    sent = [base64.b64encode(pair.encode()).decode()] if written else []
    return tuple(sorted({*written, *map(unquote, written), *sent}, key=len, reverse=True))


def _environment(folder: Path) -> dict[str, str]:
    home = folder / "home"
    home.mkdir()
    passed: Mapping[str, str] = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    return {**passed, "PATH": _PATH, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}


def _check_origins(deps: Path) -> None:
    """Whether all is from the registry: an older npm follows a package's own dependency on a URL.

    Raises:
        DependenciesUnavailable: when something is not.
    """
    written = deps / "node_modules" / ".package-lock.json"
    packages = json.loads(written.read_text())["packages"] if written.is_file() else {}
    written.unlink(missing_ok=True)
    for place, entry in packages.items():
        if entry.get("link") or ("resolved" in entry and not entry.get("inBundle")):
            raise DependenciesUnavailable(f"npm: {place} is not from the registry")
