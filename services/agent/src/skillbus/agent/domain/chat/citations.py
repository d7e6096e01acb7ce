"""Citations in an answer, checked against the knowledge that the model was given."""

import re
from collections.abc import Collection
from typing import Final

from skillbus.contracts.agent.chat import Citation

_CITATION: Final = re.compile(r"\[K-(?P<item>[A-Za-z0-9-]{1,64}) v(?P<version>\d{1,9})\]")


def list_citations(text: str, given: Collection[str]) -> tuple[Citation, ...]:
    """Return the citations `[K-<id> v<version>]` of a text, each once, in their order.

    Args:
        given: Items that the model was given, as `<id> v<version>`.
    """
    found = dict[str, Citation]()
    for match in _CITATION.finditer(text):
        key = f"{match['item']} v{match['version']}"
        found.setdefault(key, Citation(label=f"K-{key}", item_id=match["item"] if key in given else None))
    return tuple(found.values())
