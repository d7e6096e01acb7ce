"""Actions that grammars know: their codes, and the usual word of each in both languages."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from skillbus.queryir.sentence import Language


class ActionCode(StrEnum):
    """Action of a query, for programs. A home's commands may do more; their sentences keep their own verb."""

    TURN_ON = "turn_on"
    TURN_OFF = "turn_off"
    TOGGLE = "toggle"
    OPEN = "open"
    """Open a cover, door or valve."""
    CLOSE = "close"
    LOCK = "lock"
    UNLOCK = "unlock"
    START = "start"
    """Start a machine: vacuum, washer, timer."""
    STOP = "stop"
    DOCK = "dock"
    """Send a vacuum or mower back to its base."""
    ACTIVATE = "activate"
    """Activate a scene, script or automation."""
    PLAY = "play"
    PAUSE = "pause"
    NEXT = "next"
    PREVIOUS = "previous"
    MUTE = "mute"
    UNMUTE = "unmute"
    SET_BRIGHTNESS = "set_brightness"
    SET_COLOR = "set_color"
    SET_COLOR_TEMPERATURE = "set_color_temperature"
    SET_TEMPERATURE = "set_temperature"
    SET_HUMIDITY = "set_humidity"
    SET_VOLUME = "set_volume"
    SET_POSITION = "set_position"
    SET_SPEED = "set_speed"
    SET_MODE = "set_mode"
    SET_CHANNEL = "set_channel"
    SET_SOURCE = "set_source"
    QUERY_STATE = "query_state"
    QUERY_TEMPERATURE = "query_temperature"
    QUERY_HUMIDITY = "query_humidity"


_WORDS: Final[Mapping[ActionCode, tuple[str, str]]] = {
    ActionCode.TURN_ON: ("打开", "turn on"),
    ActionCode.TURN_OFF: ("关闭", "turn off"),
    ActionCode.TOGGLE: ("切换", "toggle"),
    ActionCode.OPEN: ("打开", "open"),
    ActionCode.CLOSE: ("关闭", "close"),
    ActionCode.LOCK: ("锁上", "lock"),
    ActionCode.UNLOCK: ("解锁", "unlock"),
    ActionCode.START: ("启动", "start"),
    ActionCode.STOP: ("停止", "stop"),
    ActionCode.DOCK: ("返回", "return to base"),
    ActionCode.ACTIVATE: ("打开", "activate"),
    ActionCode.PLAY: ("播放", "play"),
    ActionCode.PAUSE: ("暂停", "pause"),
    ActionCode.NEXT: ("下一首", "next"),
    ActionCode.PREVIOUS: ("上一首", "previous"),
    ActionCode.MUTE: ("静音", "mute"),
    ActionCode.UNMUTE: ("取消静音", "unmute"),
    ActionCode.SET_BRIGHTNESS: ("设置亮度", "set brightness"),
    ActionCode.SET_COLOR: ("设置颜色", "set color"),
    ActionCode.SET_COLOR_TEMPERATURE: ("设置色温", "set color temperature"),
    ActionCode.SET_TEMPERATURE: ("设置温度", "set temperature"),
    ActionCode.SET_HUMIDITY: ("设置湿度", "set humidity"),
    ActionCode.SET_VOLUME: ("设置音量", "set volume"),
    ActionCode.SET_POSITION: ("设置位置", "set position"),
    ActionCode.SET_SPEED: ("设置风速", "set speed"),
    ActionCode.SET_MODE: ("设置模式", "set mode"),
    ActionCode.SET_CHANNEL: ("切换频道", "set channel"),
    ActionCode.SET_SOURCE: ("切换输入源", "set source"),
    ActionCode.QUERY_STATE: ("查询", "query"),
    ActionCode.QUERY_TEMPERATURE: ("查询温度", "query temperature"),
    ActionCode.QUERY_HUMIDITY: ("查询湿度", "query humidity"),
}


def get_action_word(code: ActionCode, language: Language) -> str:
    """Return the usual word of an action in a language."""
    chinese, english = _WORDS[code]
    return chinese if language == "zh" else english
