"""Parser of `package.json` and `package-lock.json`: names with version ranges, from the registry only."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import DependenciesInvalid
from skillbus.sandbox.domain.packages.requirements import REQUIREMENTS_MAX, Requirements, excerpt

LOCKED_MAX: Final = 4096
"""Most packages in a lock; a large web framework has some 1,500."""
_NAME_CHARACTERS: Final = 214
_NAME: Final = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*")
_RANGE: Final = re.compile(r"[A-Za-z0-9.*^~<>=|+ -]{0,128}")
_PLACE: Final = re.compile(rf"node_modules/(?:{_NAME.pattern})(?:/node_modules/(?:{_NAME.pattern}))*")
_INTEGRITY: Final = re.compile(r"sha(?:256|384|512)-[A-Za-z0-9+/=]+(?: sha(?:256|384|512)-[A-Za-z0-9+/=]+)*")
_REGISTRY_FILE: Final = re.compile(r"https?://[^\s]+\.tgz")
_LOCK_VERSIONS: Final = (2, 3)
_LISTS: Final = ("dependencies", "optionalDependencies")
_KEPT: Final = (
    "version", "integrity", "dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta",
    "dev", "optional", "devOptional", "peer", "inBundle", "engines", "os", "cpu", "libc", "hasInstallScript",
)  # fmt: skip
"""Keys of a lock entry that are kept. `resolved` is not: everything comes from the operator's registry."""


def parse_package_json(text: str, lock: str | None, where: str, where_lock: str) -> Requirements | None:
    """Return the requirements of a `package.json` and its lock, None if it lists none. Raises DependenciesInvalid."""
    manifest = _object(text, where)
    for key in ("workspaces", "overrides"):
        if manifest.get(key):
            raise DependenciesInvalid(f"{where}: remove `{key}`: only `dependencies` are supported")
    lists = {key: dict(_listed(manifest, key, where)) for key in _LISTS}
    wanted = {key: dict(sorted(entries.items())) for key, entries in lists.items() if entries}
    if not wanted:
        return None
    if sum(map(len, wanted.values())) > REQUIREMENTS_MAX:
        raise DependenciesInvalid(f"{where} lists more than {REQUIREMENTS_MAX} packages")
    listed = json.dumps({"name": "layer", "version": "0.0.0", "private": True, **wanted}, sort_keys=True)
    return Requirements(Runtime.NODE, listed, "" if lock is None else _lock(lock, where_lock, wanted))


def _listed(manifest: Mapping[str, JsonValue], key: str, where: str) -> Iterator[tuple[str, str]]:
    entries = manifest.get(key, {})
    if not isinstance(entries, dict):
        raise DependenciesInvalid(f"{where}: `{key}` must be an object of names and versions")
    for name, wanted in entries.items():
        place = f"{where}, {key}: `{excerpt(name)}`"
        if len(name) > _NAME_CHARACTERS or not _NAME.fullmatch(name):
            raise DependenciesInvalid(f"{place}: this is not a package name")
        if not isinstance(wanted, str) or not _RANGE.fullmatch(wanted):
            said = excerpt(wanted if isinstance(wanted, str) else json.dumps(wanted))
            raise DependenciesInvalid(
                f"{place}: `{said}`: packages come from the registry only: give a version like `^1.2.0`, no URL, path "
                "or alias"
            )
        yield name, wanted.strip()


def _lock(text: str, where: str, wanted: Mapping[str, Mapping[str, str]]) -> str:
    lock = _object(text, where)
    packages = lock.get("packages")
    if lock.get("lockfileVersion") not in _LOCK_VERSIONS or not isinstance(packages, dict):
        raise DependenciesInvalid(f"{where} has another format: write it with npm 7 or newer")
    if len(packages) > LOCKED_MAX:
        raise DependenciesInvalid(f"{where} has {len(packages)} packages, the limit is {LOCKED_MAX}")
    kept: dict[str, JsonValue] = {"": {"name": "layer", "version": "0.0.0", **{k: dict(v) for k, v in wanted.items()}}}
    for place, entry in packages.items():
        if place:
            kept[place] = _locked(place, entry, where)
    return json.dumps({"name": "layer", "lockfileVersion": 3, "requires": True, "packages": kept}, sort_keys=True)


def _locked(place: str, entry: JsonValue, where: str) -> dict[str, JsonValue]:
    said = f"{where}: `{excerpt(place)}`"
    if not _PLACE.fullmatch(place) or not isinstance(entry, dict):
        raise DependenciesInvalid(f"{said}: this is not a package below node_modules")
    if entry.get("link") or "name" in entry:
        raise DependenciesInvalid(f"{said}: links and aliases are not supported: packages come from the registry only")
    resolved = entry.get("resolved", "https://registry/package.tgz")
    if entry.get("inBundle") is not True:
        if not isinstance(resolved, str) or not _REGISTRY_FILE.fullmatch(resolved):
            raise DependenciesInvalid(f"{said}: it does not come from a registry")
        if not isinstance(integrity := entry.get("integrity"), str) or not _INTEGRITY.fullmatch(integrity):
            raise DependenciesInvalid(f"{said}: it has no `integrity` by sha256 or better")
    if not isinstance(version := entry.get("version"), str) or not _RANGE.fullmatch(version):
        raise DependenciesInvalid(f"{said}: it has no version")
    return {key: entry[key] for key in _KEPT if key in entry}


def _object(text: str, where: str) -> Mapping[str, JsonValue]:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DependenciesInvalid(f"{where} is not JSON: {excerpt(str(error))}") from error
    if not isinstance(value, dict):
        raise DependenciesInvalid(f"{where} must be a JSON object")
    return value
