"""Thresholds of learning, as an operator sets them."""

import pytest
from pydantic import ValidationError

from skillbus.learner.settings import LearnerSettings

_NAME = "SKILLBUS_LEARNER_LEARNING_THRESHOLDS"


def test_thresholds_are_json_of_which_each_part_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_NAME, '{"logs": {"min_warnings": 3}, "max_items": 50}')
    found = LearnerSettings().learning_thresholds
    assert (found.logs.min_warnings, found.max_items, found.traffic.min_absent) == (3, 50, 3)


@pytest.mark.parametrize("text", ['{"logs": {"min_warning": 3}}', '{"max_items": 0}', '{"other": {}}'])
def test_an_unknown_or_unfit_threshold_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(_NAME, text)
    with pytest.raises(ValidationError):
        LearnerSettings()
