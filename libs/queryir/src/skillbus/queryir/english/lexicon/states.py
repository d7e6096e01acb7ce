"""Adjectives of state: what a question asks, and the class of sensor that knows it."""

from typing import Final

from skillbus.queryir.english.lexicon.phrases import PhraseTable, read_words, spread_phrases

_STATES: Final = {
    "": (
        "on, off, out, open, opened, closed, shut, ajar, paused, playing, idle, active, inactive, working, "
        "muted, used, detected, clear, triggered, set, available, unavailable, full, docked, cleaning, "
        "stopped, armed, disarmed, up, down"
    ),
    "lock": "locked, unlocked, bolted, unbolted, jammed",
    "humidity": "humid, muggy",
    "moisture": "wet, damp, moist, dry, leaking, flooded, flooding, leaky, soaked",
    "occupancy": "occupied, unoccupied, vacant, empty, taken",
    "presence": "home, at home, away, present, absent, not home",
    "battery": (
        "low, running low, almost empty, flat, dead, out of battery, low on battery, low on charge, "
        "low on power, needing new batteries"
    ),
    "battery_charging": "charging, charged, being charged, recharging",
    "connectivity": "connected, disconnected, online, offline, reachable, unreachable, connected to the internet",
    "cold": "cold, freezing, frozen, chilly, getting cold, cool",
    "heat": "hot, overheating, overheated, heating up, getting hot, boiling, warm",
    "light": "bright, dark",
    "motion": "motion detected",
    "moving": "moving, in motion",
    "plug": "plugged, plugged in, unplugged",
    "power": "powered, powered on, powered off, powered up, without power",
    "problem": "faulty, broken, ok, okay, malfunctioning, problematic, fine, having problems, having issues, failing",
    "running": "running",
    "safety": "safe, unsafe, dangerous, secure",
    "smoke": "smoky, on fire, burning",
    "sound": "noisy, loud, making noise, making sound, making a sound, making a noise",
    "tamper": "tampered, tampered with, interfered with",
    "update": "up to date, outdated, out of date, updated, needing an update, updating, update available",
    "vibration": "vibrating, shaking",
}
STATE_WORDS: Final = PhraseTable(spread_phrases(_STATES))
"""Class of sensor by adjective. The empty class is a state of any device."""

OPENINGS: Final = frozenset(["open", "opened", "closed", "shut", "ajar"])
PEOPLE: Final = read_words(
    """
    someone somebody anyone anybody people person nobody everybody everyone
    """
)
"""People in a question of a room ask for its occupancy: `is anyone in the kitchen`."""
