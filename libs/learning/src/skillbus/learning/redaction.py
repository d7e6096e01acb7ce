"""Redaction of secrets and personal data: each is replaced by a placeholder that names its kind.

It works on single lines as on whole texts, so a quote of a redacted source equals the redaction of the quoted lines.
Redacting twice changes nothing more. Every pattern takes time linear in the length of the text.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import log2
from typing import Final

SECRET: Final = "<secret>"  # noqa: S105
TOKEN: Final = "<token>"  # noqa: S105
COOKIE: Final = "<cookie>"
EMAIL: Final = "<email>"
CARD: Final = "<card>"
PHONE: Final = "<phone>"
IDENTITY: Final = "<identity-number>"
ADDRESS: Final = "<ip>"
USER: Final = "<user>"
PRIVATE_KEY: Final = "<private-key>"
_REPLACEMENT: Final = "\ufffd"
_KINDS: Final = (SECRET, TOKEN, COOKIE, EMAIL, CARD, PHONE, IDENTITY, ADDRESS, USER, PRIVATE_KEY)
_PLACEHOLDER: Final = re.compile("<(" + "|".join(kind.strip("<>") for kind in _KINDS) + ")>")

_LONG_CHARACTERS: Final = 24
"""Shortest run of letters, digits and separators that is examined."""
_RANDOM_PART_CHARACTERS: Final = 16
_HEX_CHARACTERS: Final = 32
_LEAST_ENTROPY_BITS: Final = 3.5
"""Least Shannon entropy of a random string, in bits a character."""
_LEAST_CHANGES: Final = 0.2
"""Least share of places in a random string where a part starts. Names in camel case have about 0.15."""
_CARD_DIGITS: Final = range(13, 20)

_FLAGS: Final = re.IGNORECASE | re.ASCII  # names and numbers also end at Chinese text
_SENSITIVE_NAME: Final = (
    r"[\w.-]{0,40}?(?:passw(?:or)?d|passwort|passphrase|passcode|pwd|secret|credentials?|(?:api|access|auth|private|encryption|signing|"
    r"account|subscription|master|shared)[_-]?keys?|token|session[_-]?(?:id|key)?|jsessionid|phpsessid|csrf|xsrf|"
    r"signature|otp|密码|口令|密钥|令牌)[\w-]{0,20}"
)
"""Name of a field that holds a secret: one of the words, with what stands around it in the same name."""
_HEADER_NAME: Final = r"(?:x-)?(?:proxy-)?(?:authorization|api[_-]?key|auth(?:entication)?)"
_QUOTE: Final = r"\\{0,4}[\"']"
_QUOTED: Final = rf"(?P<open>{_QUOTE})(?:(?!(?P=open)).){{1,8000}}(?P=open)"
_VALUE: Final = rf"(?:{_QUOTED}|(?!<)" + r"[^\s\"',;&<>(){}\[\]\\]{1,8000})"
_ASSIGNED: Final = rf"(?:{_QUOTE}|%22)?+\s{{0,3}}+(?::=|=>?|:|：|＝|%3[ad])\s{{0,3}}+"


_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
"""Characters that databases or UTF-8 refuse: NUL, and the halves of pairs that JSON can escape alone."""
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END )[\s\S])*(?:-----END [A-Z0-9 ]{0,50}-----)?"
)
_URL_USER: Final = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{1,20}://)[^\s/?#@:\"'<>]{1,200}(?::[^\s/?#@\"'<>]{0,400})?@", _FLAGS
)
_COOKIE: Final = re.compile(
    rf"(?P<name>\b(?:set-)?cookies?2?{_ASSIGNED})(?:{_QUOTED}|(?![<\[{{])[^\r\n\"']{{1,8000}})",
    _FLAGS,
)
_NAMED_HEADER: Final = re.compile(
    rf"(?P<name>\b(?:name|key){_QUOTE}\s{{0,3}}:\s{{0,3}}{_QUOTE}(?:(?:set-)?(?P<cookie>cookie)|{_HEADER_NAME}|{_SENSITIVE_NAME}){_QUOTE}\s{{0,9}},\s{{0,99}}{_QUOTE}value{_QUOTE}\s{{0,3}}:\s{{0,3}})"
    rf"{_QUOTED}",
    _FLAGS,
)
_AUTHORIZATION: Final = re.compile(
    rf"(?P<name>\b{_HEADER_NAME}{_ASSIGNED})(?:(?:bearer|basic|digest|token|apikey|negotiate)\s{{1,3}})?{_VALUE}",
    _FLAGS,
)
_BEARER: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic)\s{1,3})(?=[^\s]{0,200}[0-9=._-])[A-Za-z0-9+/=._~-]{8,4000}", _FLAGS
)
_FLAG: Final = re.compile(rf"(?P<name>(?<!\S)--?{_SENSITIVE_NAME}[ =]{{1,2}}){_VALUE}", _FLAGS)
_FIELD: Final = re.compile(rf"(?P<name>(?<![\w.-]){_SENSITIVE_NAME}{_ASSIGNED}){_VALUE}", _FLAGS)
_PAIR: Final = re.compile(rf"(?P<name>[\"']{_SENSITIVE_NAME}[\"']\s{{0,2}},\s{{0,2}}){_QUOTED}", _FLAGS)
_PROSE: Final = re.compile(
    r"(?P<name>(?:passw(?:or)?d|passphrase|passcode|secret|credentials?|密码|口令|密钥)(?:\s{1,3}(?:for|of)\s{1,3}\S{1,60}?)?"
    r"(?:\s{0,3}(?:->|:|：|是|为)\s{0,3}|\s{1,3}(?:is|was)\s{1,3}|\s{1,3}))"
    r"(?=[^\s\"',;<>]{0,60}[0-9])(?=[^\s\"',;<>]{0,60}[^\s\"',;<>0-9])[^\s\"',;<>]{4,400}",
    _FLAGS,
)
"""Secret in a sentence: `password for root: x1y2`. It has digits and other characters; words of a sentence have not."""
_CODE: Final = re.compile(
    r"(?P<name>\b(?:cv[vc]2?|pin(?:[ _-]?code)?|otp(?:[ _-]?code)?|(?:verification|one[ -]time) code)"
    r"\s{0,3}(?::|=|is)?\s{0,3}|验证码\s{0,3}(?:[:：=是为]\s{0,3})?)[0-9]{3,10}(?![\w.])",
    _FLAGS,
)
_CLIENT_FLAG: Final = re.compile(
    r"(?P<name>\b(?:(?:mysql|mariadb|sshpass)[\w-]{0,20}\s(?:[^\n]{0,200}?\s)?-p|pass=))(?![\s<])\S{3,400}",
    _FLAGS,
)
_ELEMENT: Final = re.compile(
    rf"(?P<name><(?P<tag>(?:[\w-]{{1,40}}:)?{_SENSITIVE_NAME})>)[^<>]{{1,8000}}(?=</(?P=tag)>)", _FLAGS
)
_USER_FIELD: Final = re.compile(
    rf"(?P<name>(?<![\w.-])(?:[re]?user(?:[_-]?name)?|login|logname|account|用户名?|账号){_ASSIGNED})"
    rf"(?!\w{{1,40}}=){_VALUE}",  # the value is empty if another field follows
    _FLAGS,
)
_HOME: Final = re.compile(r"(?P<root>(?:/home/|/Users/|\b[A-Za-z]:\\{1,2}Users\\{1,2}))(?!<)[^\s/\\\"':;,<>|*?]{1,64}")
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[\w-]{2,24}")
_IP: Final = re.compile(
    r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)"
    r"|(?<![\w:.])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])"
    r"|(?<![\w:.])(?=[0-9a-f:]{0,30}[a-f:][0-9a-f:]{0,30}::?)(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:])",
    _FLAGS,
)
_DIGITS: Final = re.compile(r"(?<![\w.-])(?:\+?86[ -]?)?\d(?:[ -]?\d){9,18}[Xx]?(?!\w|\.\d)", re.ASCII)
_KNOWN_TOKEN: Final = re.compile(
    r"\beyJ[\w-]{8,4000}\.[\w-]{4,8000}(?:\.[\w-]{0,4000})?"
    r"|\b(?:sk|pk|rk)[-_](?:[a-z]{2,12}[-_]){0,3}[A-Za-z0-9_-]{16,400}"
    r"|\b(?:gh[opsru]_|github_pat_|glpat-|hf_|npm_|pypi-|xox[abeoprs]-|xapp-|ya29\.|SG\.|dop_v1_|shp(?:at|ss)_|LTAI)[A-Za-z0-9._-]{12,400}"
    r"|\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,40}\b"
    r"|\bAIza[\w-]{30,60}",
    re.ASCII,
)
_LONG: Final = re.compile(rf"(?<![\w+/=.-])[A-Za-z0-9+/_=-]{{{_LONG_CHARACTERS},}}")
_URL_PATH: Final = re.compile(r"(?<=://)(?P<host>[\w.-]{1,253}(?::\d{1,5})?)(?P<path>/[^\s?#\"'<>]{1,4000})", _FLAGS)
_SEGMENT: Final = re.compile(r"[^/]+")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,40}|[0-9a-f]{64}")
_PARTS: Final = re.compile(r"[/_=-]+")
_MOBILE_CN: Final = re.compile(r"(?:\+?86)?1[3-9]\d{9}")

_PATH_SEPARATOR: Final = re.compile(r"([/\\]|::)")
_HOME_FOLDER: Final = re.compile(r"(?P<root>(?:^|[/\\])(?:home|Users)[/\\])[^/\\<]+")
_COMMIT_IN_NAME: Final = re.compile(r"(?<![0-9a-zA-Z])(?=[0-9a-f]*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40}(?![0-9a-zA-Z])")


def redact_text(text: str) -> str:
    """Return the text with a placeholder such as `<token>` or `<email>` in place of each secret."""
    for pattern, replace in _REPLACEMENTS:
        text = pattern.sub(replace, text)
    return text


def count_redactions(texts: Iterable[str]) -> dict[str, int]:
    """Return the number of placeholders in redacted texts, by kind: `secret`, `email`."""
    return dict(Counter(found[1] for text in texts for found in _PLACEHOLDER.finditer(text)).most_common())


def redact_commit(commit: str) -> str:
    """Return the id of a commit: a hash as it is, anything else redacted."""
    return commit if _COMMIT.fullmatch(commit) else redact_text(commit)


def redact_path(path: str) -> str:
    """Return a path without names of users and secrets, part by part: many short parts in a row are no random string.

    Hashes of commits stay.
    """
    parts = []
    for part in _PATH_SEPARATOR.split(_HOME_FOLDER.sub(r"\g<root><user>", path)):
        plain = _COMMIT_IN_NAME.sub("0", part)
        parts.append(part if redact_text(plain) == plain else redact_text(part))
    return "".join(parts)


def _keep(group: str, placeholder: str) -> Callable[[re.Match[str]], str]:
    """Return a replacement that keeps a named group, and what quotes the value."""

    def replace(match: re.Match[str]) -> str:
        parts = match.groupdict()
        opening = parts.get("open") or ""
        return f"{parts[group]}{opening}{placeholder}{opening}"

    return replace


def _replace_named_header(match: re.Match[str]) -> str:
    return f"{match['name']}{match['open']}{COOKIE if match['cookie'] else SECRET}{match['open']}"


def _replace_digits(match: re.Match[str]) -> str:
    digits = match.group().replace(" ", "").replace("-", "")
    if _MOBILE_CN.fullmatch(digits):
        return PHONE
    if len(digits) == 18 and _is_identity_number(digits):
        return IDENTITY
    if len(digits) in _CARD_DIGITS and digits.isdigit() and digits[0] in "23456" and _is_luhn(digits):
        return CARD
    return match.group()


def _is_luhn(digits: str) -> bool:
    """Return True if the check digit is right (ISO/IEC 7812-1)."""
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _is_identity_number(digits: str) -> bool:
    """Return True if the check character is right (GB 11643, ISO 7064 MOD 11-2)."""
    if not digits[:17].isdigit():
        return False
    total = sum(int(digit) * (2 ** (17 - place) % 11) for place, digit in enumerate(digits[:17]))
    return "10X98765432"[total % 11] == digits[17].upper()


def _replace_segments(match: re.Match[str]) -> str:
    """Replace the segments of a URL that no person wrote, such as the token of a link that resets a password."""
    return match["host"] + _SEGMENT.sub(_replace_segment, match["path"])


def _replace_segment(match: re.Match[str]) -> str:
    text = match.group()
    if len(text) < _LONG_CHARACTERS or _UUID.fullmatch(text):
        return text
    return _replace_random(match)


def _replace_random(match: re.Match[str]) -> str:
    """Replace a long run of characters that no person wrote: hexadecimal, or letters and digits without words."""
    text = match.group()
    if _HEX.fullmatch(text):
        return SECRET if len(text) >= _HEX_CHARACTERS and not text.isdigit() else text
    return SECRET if any(_is_random(part) for part in (text, *_PARTS.split(text))) else text


def _is_random(text: str) -> bool:
    """Return True for letters and digits that alternate as in no word, name or path."""
    if len(text) < _RANDOM_PART_CHARACTERS or text.isalpha() or text.isdigit():
        return False
    changes = sum(map(_starts_part, text, text[1:]))
    return changes >= _LEAST_CHANGES * len(text) and _entropy_bits(text) >= _LEAST_ENTROPY_BITS


def _starts_part(before: str, after: str) -> bool:
    """Return True where a digit meets another character, and where an upper-case letter follows a lower-case one."""
    return before.isdigit() != after.isdigit() or (after.isupper() and not before.isupper())


def _entropy_bits(text: str) -> float:
    counts: Mapping[str, int] = Counter(text)
    return -sum(count / len(text) * log2(count / len(text)) for count in counts.values())


_REPLACEMENTS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (_UNSTORABLE, _REPLACEMENT),
    (_PRIVATE_KEY, PRIVATE_KEY),
    (_URL_USER, rf"\g<scheme>{USER}:{SECRET}@"),
    (_NAMED_HEADER, _replace_named_header),
    (_COOKIE, _keep("name", COOKIE)),
    (_AUTHORIZATION, _keep("name", TOKEN)),
    (_BEARER, rf"\g<scheme>{TOKEN}"),
    (_FLAG, _keep("name", SECRET)),
    (_FIELD, _keep("name", SECRET)),
    (_PAIR, _keep("name", SECRET)),
    (_CLIENT_FLAG, _keep("name", SECRET)),
    (_PROSE, _keep("name", SECRET)),
    (_CODE, _keep("name", SECRET)),
    (_ELEMENT, _keep("name", SECRET)),
    (_KNOWN_TOKEN, TOKEN),
    (_EMAIL, EMAIL),
    (_USER_FIELD, _keep("name", USER)),
    (_HOME, rf"\g<root>{USER}"),
    (_IP, ADDRESS),
    (_DIGITS, _replace_digits),
    (_URL_PATH, _replace_segments),
    (_LONG, _replace_random),
)
