"""The script of a run, as a file of its skill."""

from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run import RunSpec


def check_script(spec: RunSpec) -> None:
    """Whether it is there, and no link leads out of the skill.

    Raises:
        RunRejected: when it is not so.
    """
    root = spec.skill_root.resolve()
    script = (root / spec.script).resolve()
    if not script.is_relative_to(root) or not script.is_file():
        raise RunRejected(f"script {spec.script!r} is not a file of the skill")
