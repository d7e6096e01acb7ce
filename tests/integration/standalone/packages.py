"""Skill packages written on the spot."""

import hashlib
import io
import zipfile

from skillbus.contracts.message import Content


def skill_md(name: str, description: str) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n"


def package(name: str, description: str) -> bytes:
    """One SKILL.md and one script."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{name}/SKILL.md", skill_md(name, description))
        archive.writestr(f"{name}/scripts/main.py", "print('done')\n")
    return stream.getvalue()


def content_of(name: str, description: str) -> Content:
    """A package inline."""
    data = package(name, description)
    return Content(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), inline=data)
