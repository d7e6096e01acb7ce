"""A package for examples."""

from base64 import b64decode
from typing import Final

HELLO: Final = b64decode(
    "UEsDBBQAAAAAAAAAIVyJCYeaQgAAAEIAAAAIAAAAU0tJTEwubWQtLS0KbmFtZTogaGVsbG8KZGVzY3JpcHRpb246IFNheXMgaGVs"
    "bG8uIOaJk+aLm+WRvOOAggotLS0KIyBIZWxsbwpQSwECFAMUAAAAAAAAACFciQmHmkIAAABCAAAACAAAAAAAAAAAAAAAgAEAAAAA"
    "U0tJTEwubWRQSwUGAAAAAAEAAQA2AAAAaAAAAAAA"
)
"""A zip with a SKILL.md that says hello: the smallest skill."""
