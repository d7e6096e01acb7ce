"""The script of a run, as a file of its skill."""

import os

from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run import RunSpec


def check_script(spec: RunSpec) -> None:
    """Whether it is there, and no link leads out of the skill.

    Raises:
        RunRejected: when it is not so.
    """
    root = os.path.realpath(spec.skill_root)
    script = os.path.realpath(os.path.join(root, spec.script))  # noqa: PTH118 - pathlib takes four times as long
    if not script.startswith(f"{root}/") or not os.path.isfile(script):  # noqa: PTH113 - the same
        raise RunRejected(f"script {spec.script!r} is not a file of the skill")
