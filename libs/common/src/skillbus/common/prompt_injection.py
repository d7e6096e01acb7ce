"""Scanner for signs of prompt injection in texts that a model reads. They are signs, not proof.

Descriptions of tools come from untrusted servers and packages. The scanner reports text that gives the model
instructions instead of describing the tool, characters that people do not see, and long runs of encoded bytes. Its time
is linear in the length of the text. It is shared because the agent scans descriptions before it cuts them, and the
indexer scans those of all sources.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue
from pydantic_core import SchemaValidator, core_schema

from skillbus.common.characters import find_hidden, remove_hidden
from skillbus.contracts.indexer.tools import ToolFinding

INSTRUCTIONS: Final = "instructions_to_the_model"
HIDDEN: Final = "hidden_characters"
ENCODED: Final = "encoded_text"

_QUOTED_CHARACTERS: Final = 80
_ENCODED_CHARACTERS: Final = 200
"""Shortest run of base64 that is reported: keys and hashes in examples are shorter."""

_ENCODED: Final = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{_ENCODED_CHARACTERS},}}={{0,2}}")

_EARLIER: Final = "(?:previous|prior|preceding|earlier|above|system|other|existing|original)"
_RULES: Final = "(?:instructions?|prompts?|rules|messages|directions|directives|guidelines|constraints|safeguards)"
_TELL: Final = "(?:tell|inform|mention|reveal|notif|alert|disclos|warn)(?:y|e|ing|ying)?"
_EARLIER_ZH: Final = "(?:之前|以前|先前|此前|前面|上面|以上|上述|原有|系统|系統|所有|全部|一切)"
_RULES_ZH: Final = "(?:指令|指示|提示|规则|規則|规定|要求|约束|限制|设定|設定)"
_NOT_ZH: Final = "(?:不要|不得|不可|不能|请勿|勿|别|切勿|禁止|无需|無需)"
_USER_ZH: Final = "(?:用户|用戶|使用者)"
_INSTRUCTIONS: Final = re.compile(
    "|".join(
        (
            rf"\b(?:ignore|disregard|forget|override|bypass)(?: \w+){{0,3}}? {_EARLIER}(?: \w+){{0,2}}? {_RULES}\b",
            rf"\b(?:ignore|disregard|forget) (?:all |any )?(?:of )?(?:your|my|these|those) {_RULES}\b",
            rf"\b(?:not|don['’]t|never|without) (?:\w+ ){{0,2}}?{_TELL} (?:\w+ ){{0,4}}?(?:the|to|your) users?\b",
            r"\b(?:hide|conceal|keep) (?:\w+ ){1,3}?(?:secret )?from (?:the|your) users?\b",
            r"\b(?:reveal|print|repeat|output|send|leak|include) (?:\w+ ){0,3}?system prompt\b",
            r"\byou are now (?:in )?(?:dan|developer mode|unrestricted|jailbroken|no longer)\b",
            r"\bnew (?:system )?instructions?:",
            r"<(?:important|system|secret|hidden|admin|critical|system-reminder|system_prompt)>",
            r"<\|?(?:im_start|im_end|system|endoftext)\|>|\[/?inst\]|<</?sys>>",
            r"(?:~/|\.)ssh/|\bid_rsa\b|/etc/(?:passwd|shadow)\b|\.cursor/mcp\.json",
            rf"(?:忽略|无视|無視|忽視|忘记|忘掉|不要理会|不要遵守|绕过)[^。]{{0,12}}?{_EARLIER_ZH}[^。]{{0,8}}?{_RULES_ZH}",
            rf"{_NOT_ZH}(?:[把将][^。]{{0,12}}?)?(?:告诉|告訴|告知|通知|透露给|泄露给){_USER_ZH}",
            rf"{_NOT_ZH}(?:向|对|让){_USER_ZH}(?:透露|提及|提到|说明|说起|展示|披露|知道|知晓|发现)",
            rf"(?:不通知|不告知|不告诉|瞒着|隐瞒){_USER_ZH}",
            r"(?:输出|打印|重复|发送|泄露|告诉我)(?:你的|完整的?|全部的?)?系统提示",
        )
    ),
    re.IGNORECASE,
)
_POSSIBLE: Final = SchemaValidator(
    core_schema.str_schema(pattern="(?i)" + _INSTRUCTIONS.pattern.replace(r"\b", "").replace(r"\w+", "[^ ]+"))
)
"""The same patterns for Rust's engine, a filter before `_INSTRUCTIONS`.

It needs a fiftieth of the time: Python's engine tries each alternative at each letter. The filter matches more where
the engines define words differently, so it never misses a match.
"""
_TAGS: Final = {0xE0000 + code: code for code in range(0x20, 0x7F)}


def scan_text(text: str, where: str = "description") -> tuple[ToolFinding, ...]:
    """Return at most one finding of each kind; `where` is the field that holds the text.

    A megabyte takes some tenths of a second: scan texts without a limit in a thread.
    """
    return tuple(_findings(text, where))


def scan_schema(schema: JsonValue, where: str = "parameters") -> tuple[ToolFinding, ...]:
    """Scan all texts of a JSON Schema, keys included: a model reads them as it reads the description."""
    return scan_text("\n".join(_texts(schema)), where)


def _findings(text: str, where: str) -> Iterator[ToolFinding]:
    if hidden := find_hidden(text):
        points = ", ".join(sorted({f"U+{ord(character):04X}" for character in hidden})[:5])
        yield ToolFinding(code=HIDDEN, message=f"hidden characters, {len(hidden)} of them: {points}", where=where)
    if found := _find_instructions(text):
        message = f"it gives the model instructions: {found.group()[:_QUOTED_CHARACTERS]!r}"
        yield ToolFinding(code=INSTRUCTIONS, message=message, where=where)
    if found := _ENCODED.search(text):
        length = len(found.group())
        message = f"{length} characters of encoded bytes: {found.group()[:16]}…"
        yield ToolFinding(code=ENCODED, message=message, where=where)


def _find_instructions(text: str) -> re.Match[str] | None:
    """Search the text as a model reads it: tag characters as letters, one form of each letter, single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", remove_hidden(text.translate(_TAGS)))
    text = " ".join(text.split())
    # Python also matches these two letters as an i; Rust accepts no unpaired surrogates.
    folded = text if text.isascii() else text.replace("ı", "i").replace("İ", "i").encode("utf-8", "replace")
    return _INSTRUCTIONS.search(text) if _POSSIBLE.isinstance_python(folded) else None


def _texts(schema: JsonValue) -> Iterator[str]:
    waiting: list[JsonValue] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
