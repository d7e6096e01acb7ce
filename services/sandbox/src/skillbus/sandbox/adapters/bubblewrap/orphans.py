"""What a killed service can leave: a bubblewrap that it had started, and that was not bound to its life yet."""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

_NAME: Final = "bwrap"
_INIT: Final = "1"


def end_orphans(uids: Collection[int]) -> None:
    """Kill those of these users, whom nothing but runs has, whose parent has died."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it goes in this moment
            lines = (line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
            status = {name: value.split() for name, value in lines}
            orphaned = status["PPid"] == [_INIT] and os.getpid() != int(_INIT)
            if orphaned and status["Name"] == [_NAME] and int(status["Uid"][0]) in uids:
                os.kill(int(folder.name), signal.SIGKILL)
