"""The hash by which a point is told from what it should be."""

import hashlib
import json
from typing import Final

from skillbus.indexer.domain.record import SkillRecord

NO_MODEL: Final = "lexical"
"""In place of a model's fingerprint: the point has a sparse vector only."""
_PAYLOAD_VERSION: Final = 1
"""Raised when what a point holds is computed otherwise, so that all points are made again."""


def content_hash(record: SkillRecord, fingerprint: str) -> str:
    """Of all that a point is made from: the same hash, the same point."""
    skill = record.skill
    made_from = [_PAYLOAD_VERSION, fingerprint, skill.digest, skill.name, skill.description, list(skill.tags)]
    return hashlib.sha256(json.dumps(made_from, ensure_ascii=False).encode()).hexdigest()[:32]
