"""The script of a run, as a file of its skill."""

import os
import stat

from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run import RunSpec


def check_script(spec: RunSpec) -> None:
    """Whether it is there, and no link leads out of the skill.

    Raises:
        RunRejected: when it is not so.
    """
    if _is_plain(spec):
        return
    root = os.path.realpath(spec.skill_root)
    script = os.path.realpath(os.path.join(root, spec.script))  # noqa: PTH118 - pathlib takes four times as long
    if not script.startswith(f"{root}/") or not os.path.isfile(script):  # noqa: PTH113 - the same
        raise RunRejected(f"script {spec.script!r} is not a file of the skill")


def _is_plain(spec: RunSpec) -> bool:
    """Whether no link is on the way to it, as nearly always; its name is a safe one."""
    path = str(spec.skill_root)
    *folders, name = spec.script.split("/")
    try:
        for folder in folders:
            path = f"{path}/{folder}"
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                return False
        return stat.S_ISREG(os.lstat(f"{path}/{name}").st_mode)
    except OSError:
        return False
