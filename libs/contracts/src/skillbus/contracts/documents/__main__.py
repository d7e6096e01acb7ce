"""Writes the documents into the checkout that is named, or the one that this is run in."""

import sys
from pathlib import Path

from skillbus.contracts.documents.generation import write


def main() -> None:
    """Write what changed, and say what that was."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    if not (root / "docs").is_dir():
        sys.exit(f"{root} is not a checkout of skillbus: run this at its top, or name it as the only argument")
    for path in write(root):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
