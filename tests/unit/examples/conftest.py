from pathlib import Path

import pytest

from .runner import SkillRunner


@pytest.fixture
def skills(tmp_path: Path) -> SkillRunner:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    return SkillRunner(tmp_path)
