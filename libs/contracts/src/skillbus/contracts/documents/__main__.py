"""`python -m skillbus.contracts.documents [CHECKOUT]`: write the documents into a checkout."""

import sys
from pathlib import Path

from skillbus.contracts.documents.generation import build_documents, write_documents


def main() -> None:
    """Write the documents and print the paths that changed."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    if not (root / "docs").is_dir():
        sys.exit(f"{root} is not a checkout of skillbus: run this at its top, or name it as the only argument")
    for path in write_documents(root, build_documents(root)):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
