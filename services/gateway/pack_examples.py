"""Pack the examples into the assets of the pages, so that the first page can install them: `make documents`."""

import io
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TARGET: Final = Path(__file__).parent / "src/skillbus/gateway/service/pages/assets/examples"
_TIME: Final = (2026, 1, 1, 0, 0, 0)


def list_skill_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a skill by their names in its package."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def pack_skill(files: dict[str, bytes]) -> bytes:
    """Return a package with these files. Equal files make equal packages on one machine."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in files.items():
            package.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def read_package(package: bytes) -> dict[str, bytes]:
    """Return the files in a package by their names."""
    with zipfile.ZipFile(io.BytesIO(package)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def pack_examples() -> None:
    """Write what has changed, and remove what is gone."""
    TARGET.mkdir(exist_ok=True)
    wanted = set[str]()
    for folder in sorted(path.parent for path in ROOT.glob("examples/skills/*/SKILL.md")):
        target, files = TARGET / f"{folder.name}.zip", list_skill_files(folder)
        wanted.add(target.name)
        # Other versions of zlib compress the same files to other bytes.
        if not target.exists() or read_package(target.read_bytes()) != files:
            target.write_bytes(pack_skill(files))
    for item in sorted(ROOT.glob("examples/knowledge/*.md")):
        wanted.add(item.name)
        (TARGET / item.name).write_bytes(item.read_bytes())
    for path in TARGET.iterdir():
        if path.name not in wanted:
            path.unlink()


if __name__ == "__main__":
    pack_examples()
