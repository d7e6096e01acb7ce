"""Fetch the files of `vendored_assets.toml` with npm, check their packages, and put them beside the pages.

Run it with `make assets` after a version was changed. `npm view NAME@VERSION dist.integrity` prints its integrity.
"""

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ASSETS = HERE / "src/skillbus/gateway/service/pages/assets/vendor"


def main() -> None:
    """Fetch every package. Exits with an error if one is not what the list says."""
    listed = tomllib.loads((HERE / "vendored_assets.toml").read_text("utf-8"))["package"]
    ASSETS.mkdir(exist_ok=True)
    for package in listed:
        name = f"{package['name']}@{package['version']}"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", name, "--silent"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            (archive,) = Path(folder).glob("*.tgz")
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if f"sha512-{digest}" != package["integrity"]:
                sys.exit(f"{name}: its integrity is sha512-{digest}, not that of vendored_assets.toml")
            with tarfile.open(archive) as files:
                for source, target in package["files"].items():
                    member = files.extractfile(f"package/{source}")
                    if member is None:
                        sys.exit(f"{name}: no file {source}")
                    (ASSETS / target).write_bytes(member.read())
        sys.stdout.write(f"{name}: {', '.join(package['files'].values())}\n")


if __name__ == "__main__":
    main()
