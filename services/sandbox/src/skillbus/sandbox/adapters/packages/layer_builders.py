"""Builders of layers with uv and npm, which download and unpack packages without running any of their code.

uv installs wheels only, because a source distribution runs its own build code. npm runs no package scripts. The
settings alone say where packages come from: neither program sees the machine's configuration, nor any of this process's
environment except proxies and certificates. Neither keeps a cache.
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

from skillbus.sandbox.adapters.packages.bounded_program import run_program
from skillbus.sandbox.domain.errors import DependenciesUnavailable
from skillbus.sandbox.domain.packages.requirements import Requirements, strip_user_info

DEPS: Final = "deps"
"""Subfolder of the working folder that a builder fills."""
_OUTPUT_CHARACTERS: Final = 1000
_PASSED_ON: Final = (
    "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_HTTP_S: Final = 15
_RETRIES: Final = 1
_NPM_LEAST: Final = (11, 14)
"""First npm with --allow-remote, --allow-file and --allow-directory. Source: npm/cli, release 11.14.0."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Limits of a build. Downloads lie next to unpacked files, so that a build may write twice the layer size."""

    wall_s: float
    layer_bytes: int


class LayerBuilder(Protocol):
    """Installer of packages for one runtime into a folder."""

    @property
    def program(self) -> str | None:
        """Installing program; None if the machine has none."""

    @property
    def index(self) -> str:
        """Address of the package index, without credentials."""

    @property
    def layer_bytes(self) -> int:
        """Size limit of the layer."""

    async def build(self, requirements: Requirements, interpreter: Path, folder: Path) -> None:
        """Install into `deps` in the empty `folder`, which may get other files as well.

        Raises:
            DependenciesUnavailable: With the output of the program, without secrets.
        """

    def check_layer(self, deps: Path) -> None:
        """Check the sealed layer and remove files of the installing program from it. Raises DependenciesUnavailable."""


class UvBuilder:
    """`LayerBuilder` for wheels, with `uv pip install --target`."""

    def __init__(self, index_url: str | None, limits: BuildLimits, program: str | None = None) -> None:
        self._index_url = index_url
        self._wall_s, self.layer_bytes = limits.wall_s, limits.layer_bytes
        self.program = program or find_uv()
        self.index = strip_user_info(index_url or "uv's own")

    async def build(self, requirements: Requirements, interpreter: Path, folder: Path) -> None:
        if self.program is None:
            raise DependenciesUnavailable(
                "uv is not installed where the sandbox runs: install it on PATH to get Python packages"
            )
        folder.joinpath(DEPS).mkdir()
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
            # Not an argument, which every user of the machine could see.
            environment["UV_DEFAULT_INDEX"] = self._index_url
        if _SYSTEM_CERTIFICATES.is_file() and "SSL_CERT_FILE" not in environment:
            environment["UV_SYSTEM_CERTS"] = "1"
        code, output = await run_program(argv, environment, folder, self._wall_s, 2 * self.layer_bytes)
        if code != 0:
            raise DependenciesUnavailable(f"uv: {clean_output(output, _secrets(self._index_url))}")

    def check_layer(self, deps: Path) -> None:
        deps.joinpath(".lock").unlink(missing_ok=True)


class NpmBuilder:
    """`LayerBuilder` for Node, with `npm install`, or `npm ci` if there is a lock."""

    def __init__(self, registry: str | None, limits: BuildLimits, program: str | None = None) -> None:
        self._registry = registry
        self._wall_s, self.layer_bytes = limits.wall_s, limits.layer_bytes
        self.program = program or shutil.which("npm", path=_PATH) or shutil.which("npm")
        self.index = strip_user_info(registry or "npm's own")
        self._checked = set[str]()

    async def build(self, requirements: Requirements, interpreter: Path, folder: Path) -> None:
        if self.program is None:
            raise DependenciesUnavailable(
                "npm is not installed where the sandbox runs: install it on PATH to get Node packages"
            )
        environment = _environment(folder) | {
            "PATH": f"{interpreter.parent}:{_PATH}",
            "npm_config_cache": str(folder / "cache"),
            "npm_config_userconfig": str(folder / "npmrc"),
            "npm_config_globalconfig": str(folder / "none"),
            "npm_config_git": str(folder / "none"),
            "npm_config_logs_max": "0",
            "npm_config_fetch_timeout": str(1000 * _HTTP_S),
            "npm_config_fetch_retries": str(_RETRIES),
            "npm_config_fetch_retry_mintimeout": "1000",
        }
        await self._check_version(self.program, environment, folder / "version")
        deps = folder / DEPS
        deps.mkdir()
        deps.joinpath("package.json").write_text(requirements.listed)
        if requirements.lock:
            deps.joinpath("package-lock.json").write_text(requirements.lock)
        settings = folder / "npmrc"
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{line}\n" for line in build_npm_settings(self._registry)))
        argv = (
            self.program, "ci" if requirements.lock else "install", "--prefix", str(deps), "--ignore-scripts",
            "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--no-bin-links", "--no-progress",
            "--no-color", "--allow-git=none", "--allow-remote=none", "--allow-file=none", "--allow-directory=none",
            "--omit-lockfile-registry-resolved",
        )  # fmt: skip
        code, output = await run_program(argv, environment, folder, self._wall_s, 2 * self.layer_bytes)
        if code != 0:
            raise DependenciesUnavailable(f"npm: {clean_output(output, _secrets(self._registry))}")

    def check_layer(self, deps: Path) -> None:
        """See `LayerBuilder.check_layer`. Refuses a package that does not come from the registry."""
        written = deps / "node_modules" / ".package-lock.json"
        packages = json.loads(written.read_text())["packages"] if written.is_file() else {}
        written.unlink(missing_ok=True)
        for place, entry in packages.items():
            if entry.get("link") or ("resolved" in entry and not entry.get("inBundle")):
                raise DependenciesUnavailable(f"npm: {place} does not come from the registry")

    async def _check_version(self, program: str, environment: Mapping[str, str], folder: Path) -> None:
        """Raise DependenciesUnavailable if npm cannot be kept to the registry: an older one ignores the options."""
        if program in self._checked:
            return
        folder.mkdir()
        code, output = await run_program((program, "--version"), environment, folder, self._wall_s, self.layer_bytes)
        found = re.search(r"^(\d+)\.(\d+)\.\S*$", output, re.MULTILINE)  # npm may print warnings as well
        if code != 0 or found is None:
            raise DependenciesUnavailable(f"npm: {clean_output(output, ())}")
        if (int(found[1]), int(found[2])) < _NPM_LEAST:
            least = ".".join(map(str, _NPM_LEAST))
            raise DependenciesUnavailable(
                f"npm {found[0]} cannot be kept to the registry: packages may name any other address. "
                f"Install npm {least} or newer, which has --allow-remote"
            )
        self._checked.add(program)


def find_uv() -> str | None:
    """Return the path of uv on PATH or next to this Python, None if there is none."""
    return shutil.which("uv") or shutil.which("uv", path=sysconfig.get_path("scripts"))


def build_npm_settings(registry: str | None) -> Iterator[str]:
    """Yield the lines of an `.npmrc`. Credentials are separate from the address, which npm copies into its files."""
    if registry is None:
        return
    parts = urlsplit(registry)
    place = parts.netloc.rpartition("@")[2]
    path = f"{parts.path.rstrip('/')}/"
    yield f"registry={urlunsplit((parts.scheme, place, path, parts.query, ''))}"
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        yield f"//{place}{path}:_auth={base64.b64encode(pair.encode()).decode()}"


def clean_output(output: str, secrets: tuple[str, ...]) -> str:
    """Return output of a program for a message: one line, shortened, without secrets."""
    for secret in secrets:
        output = output.replace(secret, "***")
    words = re.sub(r"\x1b\[[0-9;]*m|npm (?:error|warn) ?", "", strip_user_info(output))
    flat = " ".join(words.split()) or "it failed without output"
    return flat if len(flat) <= _OUTPUT_CHARACTERS else f"{flat[:_OUTPUT_CHARACTERS]}…"


def _secrets(url: str | None) -> tuple[str, ...]:
    """Return the secrets of a URL, as written and as sent; a user without password may be a token."""
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
