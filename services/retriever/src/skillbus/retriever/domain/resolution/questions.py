"""Questions back to the speaker, in the language of the sentence."""

from collections.abc import Sequence

from skillbus.contracts.retriever.command_resolution import RecalledDevice
from skillbus.queryir.recall import RecallGap
from skillbus.queryir.sentence import Language

_LISTED = 5


def ask_about_gap(gap: RecallGap, unknown: Sequence[str], language: Language) -> str:
    """Return the question of a command that cannot be matched with the home."""
    chinese = language == "zh"
    if gap is RecallGap.UNKNOWN_EXCLUSION:
        words = ("、" if chinese else ", ").join(unknown)
        return (
            f"这个家里没有“{words}”。要排除哪些设备？" if chinese else f"This home has no “{words}”. What is left out?"
        )
    if gap is RecallGap.NOTHING_MENTIONED:
        return "您指的是哪个设备？" if chinese else "Which device do you mean?"
    return "要操作哪个设备？" if chinese else "For which device?"


def ask_to_choose(candidates: Sequence[RecalledDevice], language: Language, *, several: bool = False) -> str:
    """Return the question which of the candidates are meant: their names, with rooms where names are the same."""
    chinese = language == "zh"
    names = [device.name for device in candidates]
    listed = [_describe(device, names.count(device.name) > 1, language) for device in candidates[:_LISTED]]
    if len(candidates) > _LISTED:
        listed.append("……" if chinese else "…")
    if chinese:
        return f"您指的是{'哪几个' if several else '哪一个'}：{'、'.join(listed)}？"
    return f"Which {'ones' if several else 'one'} do you mean: {', '.join(listed)}?"


def _describe(device: RecalledDevice, shared: bool, language: Language) -> str:
    if not shared or device.room is None:
        return device.name
    return f"{device.room}的{device.name}" if language == "zh" else f"{device.name} ({device.room})"
