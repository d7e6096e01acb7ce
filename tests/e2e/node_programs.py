"""Programs of Node and curl beside a running skillbus."""

import asyncio
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import System

WAIT_S = 60
NEEDS_NODE = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="node or npm is not there"
)


@dataclass(frozen=True, slots=True)
class Ran:
    status: int
    stdout: str
    stderr: str


async def execute(*command: str, folder: Path, **environment: str) -> Ran:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(WAIT_S):
        stdout, stderr = await process.communicate()
    return Ran(process.returncode or 0, stdout.decode(), stderr.decode())


async def install_packages(folder: Path) -> None:
    """Install what the lock file of a client names. Skips where npm's registry does not answer."""
    installed = await execute("npm", "ci", "--no-audit", "--no-fund", folder=folder)
    if installed.status == 0:
        return
    package = json.loads((folder / "package.json").read_text())
    wanted = next(iter({**package.get("dependencies", {}), **package.get("devDependencies", {})}))
    if (await execute("npm", "view", wanted, "name", folder=folder)).status != 0:
        pytest.skip(f"npm's registry does not answer: {installed.stderr[-300:]}")
    pytest.fail(f"npm cannot install the client's packages: {installed.stderr[-1000:]}")


def http_environment(system: System) -> dict[str, str]:
    """Variables from which clients over HTTP take address and key."""
    key = system.http.headers["Authorization"].removeprefix("Bearer ")
    return {"SKILLBUS_URL": system.standalone.http_url, "SKILLBUS_API_KEY": key}
