"""Colours, white tones and modes."""

from typing import Final

from skillbus.queryir.english.lexicon.phrases import PhraseTable, spread_phrases

_COLOURS: Final = """
red orange yellow green blue purple pink white violet cyan magenta turquoise lime teal indigo gold amber crimson
lavender coral salmon peach mint aqua beige brown maroon navy olive fuchsia scarlet ivory rose silver tan lilac black
gray
"""
COLOURS: Final = PhraseTable(
    {colour: colour for colour in _COLOURS.split()}
    | {
        f"{shade} {colour}": f"{shade}_{colour}"
        for shade in ("light", "dark", "sky", "pale", "deep", "warm", "hot", "royal", "lime", "forest", "navy")
        for colour in ("red", "orange", "yellow", "green", "blue", "purple", "pink", "violet", "turquoise")
    }
    | {"grey": "gray"}
)
"""Name of each colour."""

WHITES: Final = PhraseTable(
    spread_phrases(
        {
            2_700: "warm white, soft white, warm light, warm white light",
            4_000: "neutral white, natural white, neutral light",
            5_500: "daylight, daylight white, cool daylight",
            6_500: "cool white, cold white, bright white, cool light, cold light, ice white",
            2_000: "candlelight, candle light",
        }
    )
)
"""Kelvin of tones of white."""

MODES: Final = PhraseTable(
    spread_phrases(
        {
            "cool": "cool, cooling, cold",
            "heat": "heat, heating, warm",
            "auto": "auto, automatic",
            "heat_cool": "heat cool, heat and cool",
            "dry": "dry, drying, dehumidify",
            "fan_only": "fan only, fan, ventilation",
            "eco": "eco, economy, energy saving, energy saver, economic, energy save",
            "sleep": "sleep, sleeping, bedtime",
            "night": "night, night time",
            "away": "away, vacation, holiday",
            "home": "home",
            "boost": "boost, turbo, power",
            "quiet": "quiet, silent, silence",
            "low": "low, slow",
            "medium": "medium, mid, middle",
            "high": "high, fast",
            "comfort": "comfort",
            "manual": "manual",
            "normal": "normal, standard",
        }
    )
)
"""Name of each mode."""
