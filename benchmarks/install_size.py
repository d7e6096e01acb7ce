"""Size of skillbus before and after its installation: the Python client alone, the whole, and each extra.

Downloads are the sizes of the locked wheels for this machine, read from `uv.lock` without a network. Installed sizes
are those of fresh environments, which `uv sync` fills from its cache or from the index.

    python benchmarks/install_size.py [--downloads]
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from measuring import BenchmarkParser, save_result
from packaging.markers import Marker
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

ROOT: Final = Path(__file__).resolve().parents[1]
SETUPS: Final = {
    "skillbus-client": ("skillbus-client", ()),
    "skillbus": ("skillbus", ()),
    "skillbus[tokenizers]": ("skillbus", ("tokenizers",)),
    "skillbus[e5]": ("skillbus", ("e5",)),
    "skillbus[onnx]": ("skillbus", ("onnx",)),
    "skillbus[minilm]": ("skillbus", ("minilm",)),
    "skillbus[postgres]": ("skillbus", ("postgres",)),
    "skillbus[e5,minilm,onnx,postgres,tokenizers]": ("skillbus", ("e5", "minilm", "onnx", "postgres", "tokenizers")),
}
_MB: Final = 1_000_000
_RANKS: Final = {tag: rank for rank, tag in reversed(list(enumerate(sys_tags())))}

Package = dict[str, Any]


def read_packages() -> dict[str, Package]:
    """Return the packages of the lock by name."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    return {package["name"]: package for package in lock["package"]}


def find_needed(packages: dict[str, Package], name: str, extras: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of all packages that one needs on this machine, itself first."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, extra) for extra in ("", *extras)]
    while waiting:
        entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        package, extra = packages[entry[0]], entry[1]
        if not extra:
            yield entry[0]
        listed = package.get("optional-dependencies", {}).get(extra, ()) if extra else package.get("dependencies", ())
        for needed in listed:
            if "marker" not in needed or Marker(needed["marker"]).evaluate():
                waiting += [(needed["name"], each) for each in ("", *needed.get("extra", ()))]


def get_download_bytes(package: Package) -> int:
    """Return the size of the wheel that this machine would get; 0 for packages of this repository."""
    sizes: list[tuple[int, int]] = []
    for wheel in package.get("wheels", ()):
        tags = parse_wheel_filename(wheel["url"].rsplit("/", 1)[-1])[3]
        if ranks := [_RANKS[tag] for tag in tags if tag in _RANKS]:
            sizes.append((min(ranks), wheel["size"]))
    return min(sizes)[1] if sizes else package.get("sdist", {}).get("size", 0)


def measure_installed_bytes(name: str, extras: tuple[str, ...]) -> int:
    """Install into a fresh environment, and return the size of its files, compiled modules excluded."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["uv", "sync", "--frozen", "--no-dev", "--no-editable", "--quiet", "--link-mode", "copy"]
        chosen = [word for extra in extras for word in ("--extra", extra)]
        environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": f"{folder}/venv"}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run([*command, "--package", name, *chosen], cwd=ROOT, env=environment, check=True)
        return sum(path.lstat().st_size for path in Path(folder).rglob("*") if path.suffix != ".pyc")


def main() -> None:
    """Print a line for each way of installing, and save the sizes unless only the downloads are asked for."""
    parser = BenchmarkParser(__doc__)
    parser.add_argument(
        "--downloads", action="store_true", help="print the sizes of the downloads, and install nothing"
    )
    arguments = parser.read_arguments()
    packages = read_packages()
    figures: dict[str, dict[str, float]] = {}
    for label, (name, extras) in SETUPS.items():
        needed = list(find_needed(packages, name, extras))
        download = sum(get_download_bytes(packages[each]) for each in needed)
        figures[label] = {"download_mb": round(download / _MB, 1)}
        if not arguments.downloads:
            figures[label]["installed_mb"] = round(measure_installed_bytes(name, extras) / _MB, 1)
        print(f"{label}: {download / _MB:.0f} MB to download")
    if not arguments.downloads:
        save_result("install_size", {"figures": figures}, arguments.out)


if __name__ == "__main__":
    main()
