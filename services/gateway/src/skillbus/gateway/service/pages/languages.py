"""Languages of the pages: the English text of a template is the key of its translation."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

ENGLISH: Final = "en"
CHINESE: Final = "zh"
LANGUAGES: Final[Mapping[str, str]] = {ENGLISH: "English", CHINESE: "中文"}
"""Languages by their code, with their own names."""
_FINDING: Final = "finding:"
"""Beginning of the keys of findings, which go on with a code."""
_FOLDER: Final = Path(__file__).parent / "messages"


def choose_language(chosen: str | None, accept: str) -> str:
    """Return the language of the cookie if there is one, else the first known one of `Accept-Language`."""
    if chosen is not None and chosen in LANGUAGES:
        return chosen
    ranked = sorted(_parse_weights(accept), key=lambda pair: -pair[1])
    return next((code for code, weight in ranked if code in LANGUAGES and weight > 0), ENGLISH)


@cache
def load_messages(language: str) -> Mapping[str, str]:
    """Return the translations of a language; none for English."""
    if language == ENGLISH:
        return {}
    return tomllib.loads((_FOLDER / f"{language}.toml").read_text("utf-8"))


@cache
def load_finding_texts(language: str) -> Mapping[str, str]:
    """Return what findings mean in a language, by their code; none for English, in which the services write them."""
    messages = load_messages(language)
    return {key.removeprefix(_FINDING): text for key, text in messages.items() if key.startswith(_FINDING)}


def translate_text(language: str, text: str, **values: object) -> str:
    """Return a text in a language, with its values filled in. A text without a translation stays English.

    A name that programs use, such as `test_experience`, is shown as words.
    """
    shown = text if " " in text else text.replace("_", " ")
    translated = load_messages(language).get(text, shown)
    return translated.format(**values) if values else translated


def translate_count(language: str, count: int, one: str, many: str, **values: object) -> str:
    """Return the text for one thing, or the text for any other count, in a language, with its values filled in."""
    return translate_text(language, one if count == 1 else many, count=count, **values)


def _parse_weights(accept: str) -> list[tuple[str, float]]:
    """Return the primary language of each range with its weight (RFC 9110, section 12.5.4)."""
    weights = list[tuple[str, float]]()
    for part in accept.lower().split(",")[:20]:
        name, _, weight = part.strip().partition(";q=")
        try:
            weights.append((name.partition("-")[0], float(weight or "1")))
        except ValueError:
            continue
    return weights
