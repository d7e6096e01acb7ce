"""Verbs and particles, and the properties that they set."""

from typing import Final

from skillbus.queryir.english.lexicon.phrases import PhraseTable, read_words, spread_phrases

_VERBS: Final = {
    # Whole verbs.
    "turn_on": (
        "turn on, switch on, power on, power up, put on, flip on, start up, fire up, light up, enable, "
        "boot up, click on, flick on, illuminate, energize, get on, give me some, give us some, let there be"
    ),
    "turn_off": (
        "turn off, turn out, switch off, switch out, shut off, shut down, power off, power down, "
        "turn down off, kill, disable, deactivate, put out, flip off, cut, cut off, cut power to, click off, "
        "flick off, extinguish, douse"
    ),
    "toggle": "toggle",
    "open": (
        "open, open up, unshut, roll up, roll out, pull up, draw back, pull open, lift, put up, wind up, slide open, "
        "crack open, swing open, extend, deploy, unroll, unfurl, roll back"
    ),
    "close": (
        "close, close up, close down, shut, shut up, roll down, roll in, reel in, pull down, draw, put down, "
        "retract, fold in, furl, bring down, wind down, pull closed, slide shut, pull shut, slam, pull together"
    ),
    "lock": "lock, lock up, bolt, latch, secure, lock down, deadbolt",
    "unlock": "unlock, unbolt, unlatch",
    "pause": "pause, hold on, freeze, suspend",
    "play": "play, resume, unpause, continue, carry on, keep playing, resume playing, continue playing, start playing,"
    "play back",
    "next": (
        "skip, next, go to the next, skip to the next, play the next, jump to the next, move to the next, "
        "next up, skip to next, skip ahead to the next, go to next, play next, skip forward, skip this, "
        "fast skip, change to the next, switch to the next, advance"
    ),
    "previous": (
        "previous, go back to the previous, go back to the last, go to the previous, go to the last, "
        "skip back, skip back to the previous, skip to the previous, play the previous, play the last, "
        "replay the last, replay the previous, replay, go back a, go back one, go to previous, "
        "play previous, back to the previous, back to the last, return to the previous, jump back, "
        "jump to the previous, repeat the previous, repeat the last, go back to previous, skip to previous, "
        "switch to the previous, change to the previous, rewind to the previous"
    ),
    "mute": "mute, silence, quiet, hush, shush",
    "unmute": "unmute",
    "rewind": "rewind",
    "fast_forward": "fast forward",
    "locate": "locate, find, ping, look for",
    "arm": "arm",
    "disarm": "disarm",
    "reset": "reset",
    "refresh": "refresh",
    "ring": "ring",
    "activate": "activate, apply, trigger, execute, enter, recall, fire off, fire, enact",
    "dock": (
        "dock, return, return home, go home, go charge, go and charge, go to base, go back home, "
        "come home, come back, go back to base, head home, head back, send home, send back, bring home, "
        "bring back, go dock, go to dock, go recharge, park, return to base, return to the base, "
        "back to base, recharge"
    ),
    "go_back": "go back",
    # Verbs whose action follows from what they are used with.
    "turn": (
        "turn, switch, flip, power, flick, shift, pop, stick, knock, chuck, whack, bung, snap, hit, bump, "
        "push, wind, nudge, ramp, roll, reel"
    ),
    "set": (
        "set, change, make, adjust, put, get, have, bring, let, move, tune, modify, update, configure, "
        "program, keep, hold, maintain, colour, color, paint, give, take, select, pick, choose, use, need, "
        "want, swap, go"
    ),
    "send": "send, drive",
    "raise": "raise, increase, turn up, crank up, bump up, boost, crank, up, amp up, step up, ramp up, push up, hike",
    "lower": (
        "lower, decrease, reduce, turn down, drop, bump down, cut down, step down, ramp down, cut back, tone down"
    ),
    "brighten": "brighten, brighten up, lighten, lighten up",
    "dim": "dim, darken, dim down, soften",
    "heat": "heat, heat up, warm, warm up, preheat",
    "cool": "cool, cool down, chill",
    "start": (
        "start, brew, begin, run, launch, initiate, commence, start running, start up the, kick off, get going, "
        "make coffee, make some coffee, make me some coffee, make a coffee, make me a coffee, make a cup of coffee, "
        "brew some coffee, make tea, make some tea, make me some tea, make toast"
    ),
    "stop": "stop, halt, end, cease, cancel, abort, quit, stop running",
    "clean": (
        "clean, vacuum, hoover, sweep, mop, clean up, start cleaning, start vacuuming, start vacuum, "
        "begin cleaning, start hoovering, start sweeping, start to clean, start mowing, mow, do the floors, "
        "start mopping"
    ),
    "stop_clean": "stop cleaning, stop vacuuming, stop hoovering, stop mowing",
}
_DOUBLED: Final = frozenset({"dim", "shut", "put", "set", "get", "stop", "cut", "run", "skip", "flip", "let", "mop"})


def _form_gerund(phrase: str) -> str:
    """Return `switching off` for `switch off`."""
    verb, _, rest = phrase.partition(" ")
    stem = verb + verb[-1] if verb in _DOUBLED else verb.removesuffix("e")
    return f"{stem}ing {rest}".strip()


_PHRASES: Final = spread_phrases(_VERBS)
VERBS: Final = PhraseTable({_form_gerund(phrase): verb for phrase, verb in _PHRASES.items()} | _PHRASES)
"""Verbs and their own particles: `switch off`. A particle may also stand behind the object: `switch the lamp off`."""

INCOMPLETE_VERBS: Final = frozenset({"turn", "set", "send"})
"""Verbs that say nothing without a particle, value or place."""

PARTICLES: Final = {
    "on": "turn_on",
    "off": "turn_off",
    "out": "turn_off",
    "open": "open",
    "opened": "open",
    "closed": "close",
    "shut": "close",
    "locked": "lock",
    "unlocked": "unlock",
    "up": "up",
    "down": "down",
    "muted": "mute",
    "paused": "pause",
}
"""Particles and adjectives that finish a verb, or stand for it: `lights off`, `make sure the door is locked`."""

STARTED: Final = dict.fromkeys(
    ("going", "running", "started", "burning", "spinning", "working", "heating", "brewing", "cooking"), "start"
)
"""Participles that finish only the verb `get`: `get the washer going`. Else they describe: `is the washer running`."""

STEPS: Final = {
    "brighter": ("brightness", 1),
    "lighter": ("brightness", 1),
    "darker": ("brightness", -1),
    "dimmer": ("brightness", -1),
    "softer": ("brightness", -1),
    "warmer": ("temperature", 1),
    "hotter": ("temperature", 1),
    "cooler": ("temperature", -1),
    "colder": ("temperature", -1),
    "louder": ("volume", 1),
    "quieter": ("volume", -1),
    "faster": ("speed", 1),
    "quicker": ("speed", 1),
    "slower": ("speed", -1),
    "higher": (None, 1),
    "lower": (None, -1),
    "stronger": ("speed", 1),
    "weaker": ("speed", -1),
}
"""Comparatives: what they change, and in which direction."""

ATTRIBUTES: Final = PhraseTable(
    spread_phrases(
        {
            "brightness": "brightness, brightness level, light level, intensity, dim level, dimness, dimmer level,"
            "light intensity",
            "color": "color, colour, hue",
            "color_temperature": "color temperature, colour temperature, white temperature, color temp, colour temp",
            "temperature": (
                "temperature, temp, target temperature, setpoint, set point, heating temperature, "
                "cooling temperature, target temp"
            ),
            "humidity": "humidity, target humidity, humidity level",
            "volume": "volume, volume level, sound, sound level, audio, sound volume, loudness",
            "position": "position, opening, tilt",
            "speed": "speed, fan speed, wind speed, fan level, power level, speed level",
            "mode": "mode, hvac mode, fan mode, preset, operating mode, operation mode, setting, program, programme",
            "channel": "channel, station",
            "source": "input, source, input source",
        }
    )
)
"""Properties of devices that a command sets."""
ATTRIBUTE_ACTIONS: Final = {
    "brightness": "set_brightness",
    "color": "set_color",
    "color_temperature": "set_color_temperature",
    "temperature": "set_temperature",
    "humidity": "set_humidity",
    "volume": "set_volume",
    "position": "set_position",
    "speed": "set_speed",
    "mode": "set_mode",
    "channel": "set_channel",
    "source": "set_source",
}
FAMILY_ATTRIBUTES: Final = {
    "light": "brightness",
    "cover": "position",
    "valve": "position",
    "climate": "temperature",
    "media": "volume",
    "fan": "speed",
    "humidity": "humidity",
    "vacuum": "speed",
}
"""Property that a bare number means, by family of types."""

SOURCES: Final = read_words(
    """
    hdmi usb bluetooth aux av netflix youtube spotify optical tuner chromecast airplay phono composite component tidal
    deezer hulu plex radio disney
    """
)
"""Inputs and services of players."""
MEDIA_WORDS: Final = read_words(
    """
    music song track tune episode show movie film video playback podcast media album playlist audio
    audiobook artist songs tracks playing stream clip program programme chapter
    """
)
"""Words for what a player plays. It names no device."""
BASES: Final = read_words(
    """
    base dock home charger charge station charging docking recharge recharging bed garage
    """
)
"""Places to which a robot returns."""
BASE_WORDS: Final = PhraseTable(
    dict.fromkeys(
        [
            f"{before}{whose}{base}"
            for before in ("to ", "back to ", "")
            for whose in ("", "its ", "the ", "his ", "her ", "it is ")
            for base in (
                "base",
                "dock",
                "charger",
                "charging station",
                "docking station",
                "charging dock",
                "station",
                "base station",
                "home base",
                "charging base",
                "charge station",
                "charging point",
            )
        ]
        + [
            "to charge",
            "to recharge",
            "back to charge",
            "back home",
            "home",
            "to home",
            "for charging",
            "on charge",
            "on its dock",
            "on the dock",
            "on its charger",
            "on the charger",
            "on its base",
        ],
        True,
    )
)
