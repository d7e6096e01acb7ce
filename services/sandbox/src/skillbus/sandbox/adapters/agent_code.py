"""The agent as bytecode of the sandbox's own Python, which may be another than the service's.

Compiling it anew took every sandbox 3 ms of CPU, a tenth of its start.
"""

import subprocess
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from skillbus.sandbox.adapters.profile import AGENT, AGENT_PYTHON, AGENT_WARM
from skillbus.sandbox.domain.errors import SandboxUnavailable

_TIMEOUT_S: Final = 30.0
_SOURCES: Final = {AGENT: "agent.py", AGENT_PYTHON: "agent_python.py", AGENT_WARM: "agent_warm.py"}
_COMPILE: Final = (
    "import importlib.util, marshal, sys\n"
    "code = compile(sys.stdin.buffer.read(), sys.argv[1], 'exec')\n"
    "sys.stdout.buffer.write(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))\n"
)
"""A `.pyc` file: the magic number, no flags, no time and no size of a source, the code."""


def compile_agent(interpreter: Path) -> Mapping[str, bytes]:
    """Files of the sandbox, for `interpreter`. Blocking: a tenth of a second.

    Raises:
        SandboxUnavailable: It cannot.
    """
    return {path: _compile(interpreter, source, path) for path, source in _SOURCES.items()}


def _compile(interpreter: Path, name: str, path: str) -> bytes:
    source = files(__package__).joinpath(name).read_bytes()
    command = [str(interpreter), "-I", "-S", "-B", "-c", _COMPILE, path]
    try:
        done = subprocess.run(command, input=source, capture_output=True, check=False, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"{interpreter} does not work: {error}") from error
    if done.returncode != 0 or not done.stdout:
        said = done.stderr.decode(errors="replace").strip()
        raise SandboxUnavailable(f"{interpreter} does not work: it must be Python 3.8 or newer: {said}")
    return done.stdout
