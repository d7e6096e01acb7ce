"""Skill packages written on the spot."""

import hashlib
import io
import os
import zipfile

from skillbus.contracts.message import Content


def skill_md(name: str, description: str) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n"


def package(name: str, description: str, more_bytes: int = 0) -> bytes:
    """One SKILL.md, one script, and a file of random bytes if `more_bytes` is given."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{name}/SKILL.md", skill_md(name, description))
        archive.writestr(f"{name}/scripts/main.py", "print('done')\n")
        if more_bytes:
            archive.writestr(f"{name}/assets/data.bin", os.urandom(more_bytes))
    return stream.getvalue()


def content_of(name: str, description: str) -> Content:
    """A package inline."""
    data = package(name, description)
    return Content(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), inline=data)
