"""Fetch the files of `vendored_assets.toml` with npm, check their packages, and put them into the folder that it names.

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


def main() -> None:
    """Fetch every package. Exits with an error if one is not what the list says."""
    listed = tomllib.loads((HERE / "vendored_assets.toml").read_text("utf-8"))["package"]
    for package in listed:
        folder = HERE / package["folder"]
        folder.mkdir(exist_ok=True)
        name = f"{package['name']}@{package['version']}"
        with tempfile.TemporaryDirectory() as unpacked:
            subprocess.run(["npm", "pack", name, "--silent"], cwd=unpacked, check=True, stdout=subprocess.DEVNULL)
            (archive,) = Path(unpacked).glob("*.tgz")
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if f"sha512-{digest}" != package["integrity"]:
                sys.exit(f"{name}: its integrity is sha512-{digest}, not that of vendored_assets.toml")
            with tarfile.open(archive) as files:
                for source, target in package["files"].items():
                    member = files.extractfile(f"package/{source}")
                    if member is None:
                        sys.exit(f"{name}: no file {source}")
                    (folder / target).write_bytes(member.read())
        sys.stdout.write(f"{name}: {', '.join(package['files'].values())}\n")


if __name__ == "__main__":
    main()
