"""Each action has its usual words."""

from skillbus.queryir.actions import ActionCode, get_action_word


def test_every_action_has_a_word_in_both_languages() -> None:
    for code in ActionCode:
        assert get_action_word(code, "zh")
        assert get_action_word(code, "en")
    assert get_action_word(ActionCode.DOCK, "en") == "return to base"
    assert get_action_word(ActionCode.ACTIVATE, "zh") == "打开"
