"""Signs of prompt injection in what is learned."""

from collections.abc import Iterable

from skillbus.common.prompt_injection import scan_text
from skillbus.contracts.indexer.tools import ToolFinding
from skillbus.learning.redaction import SECRET


def scan_learned(texts: Iterable[str]) -> tuple[ToolFinding, ...]:
    """Return the signs of prompt injection in redacted texts.

    The placeholder of a secret looks like a tag that hides instructions. It is none, unless a tag is closed, too.
    """
    text = "\n".join(texts)
    return scan_text(text if "</" in text else text.replace(SECRET, " "))
