"""The machine that the agent runs on."""

import os
import platform
import sys


class ThisMachine:
    """Says what kind it is, and not which one: no host name, no user, no folder, no address."""

    def facts(self) -> dict[str, str]:
        return {
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "byte_order": sys.byteorder,
            "cpus": str(os.cpu_count() or 1),
        }
