"""Path templates: which segments of a path are ids and slugs.

Numbers, UUIDs, hexadecimal digits and addresses become `{id}` by their form. Other segments become `{slug}` if their
siblings under the same parent have the same paths below them, or, at the end of a path, if many siblings look like
slugs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from skillbus.learning.traffic.settings import TrafficSettings

ID: Final = "{id}"
SLUG: Final = "{slug}"
MAX_SEGMENTS: Final = 16
_SAME_ENDINGS: Final = 0.6
"""Least share of common endings, of the smaller set, of two segments that are values of one slug."""
_ID_LIKE: Final = re.compile(
    r"[-+]?\d[\d.,:_-]*"
    r"|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}"
    r"|[A-Za-z]{1,6}[-_]?\d{3,}"
    r"|(?=(?:\D*\d){4})[A-Za-z0-9_~-]{16,}"
    r"|[^@]*@[^@]*"
)
_VERSION: Final = re.compile(r"v\d{1,2}(?:\.\d{1,3})*(?:(?:alpha|beta)\d?)?")
_SLUG_LIKE: Final = re.compile(r".*(?:[a-z0-9][-_][a-z0-9]|\d|[^\x00-\x7f]).*", re.IGNORECASE)

PathSegments = tuple[str, ...]


def split_path(path: str) -> PathSegments:
    """Return the segments of a path, with `{id}` for those that have the form of an id."""
    parts = [part for part in path.split("/", MAX_SEGMENTS + 1) if part][:MAX_SEGMENTS]
    return tuple(ID if is_id(part) else part for part in parts)


def is_id(segment: str) -> bool:
    """Return True if a segment has the form of an id."""
    return _ID_LIKE.fullmatch(segment) is not None and _VERSION.fullmatch(segment) is None


def format_template(template: PathSegments) -> str:
    """Return a template as a path: `/api/order/{id}/pay`."""
    return "/" + "/".join(template)


@dataclass(slots=True)
class _Node:
    """Segment of a tree of paths."""

    children: dict[str, Self] = field(default_factory=dict)
    ends: bool = False

    def list_endings(self, depth: int = 4) -> set[PathSegments]:
        """Return the paths below this segment, down to a depth."""
        endings: set[PathSegments] = {()} if self.ends else set()
        if depth:
            for name, child in self.children.items():
                endings |= {(name, *ending) for ending in child.list_endings(depth - 1)}
        return endings

    def absorb(self, other: Self) -> None:
        """Add the paths below another segment to the paths below this one."""
        self.ends = self.ends or other.ends
        for name, child in other.children.items():
            if name in self.children:
                self.children[name].absorb(child)
            else:
                self.children[name] = child


class PathTemplates:
    """Templates of a set of paths."""

    def __init__(self, paths: Iterable[PathSegments], settings: TrafficSettings) -> None:
        self._settings = settings
        self._root = _Node()
        for path in sorted(set(paths)):
            node = self._root
            for segment in path:
                node = node.children.setdefault(segment, _Node())
            node.ends = True
        self._generalize(self._root)

    def get_template(self, path: PathSegments) -> PathSegments:
        """Return the template of one of the paths that the templates were made from."""
        node, template = self._root, []
        for segment in path:
            name = segment if segment in node.children else self._get_slug_name(node)
            template.append(name)
            node = node.children[name]
        return tuple(template)

    @staticmethod
    def _get_slug_name(node: _Node) -> str:
        return SLUG if SLUG in node.children else ID

    def _generalize(self, node: _Node) -> None:
        for child in list(node.children.values()):
            self._generalize(child)
        names = [name for name in node.children if name not in {ID, SLUG} and not _VERSION.fullmatch(name)]
        if len(names) < 2 or not (groups := self._find_slugs(node, names)):
            return
        target = ID if ID in node.children else SLUG
        merged = node.children.setdefault(target, _Node())
        for name in sorted(groups):
            merged.absorb(node.children.pop(name))
        self._generalize(merged)

    def _find_slugs(self, node: _Node, names: list[str]) -> set[str]:
        """Return the children that are values of one slug: the largest group, if there are several."""
        settings = self._settings
        endings = {name: _keep_literal(node.children[name].list_endings()) for name in names}
        groups = _group_by_endings(endings)
        beside_id = _keep_literal(node.children[ID].list_endings()) if ID in node.children else set()
        found: list[set[str]] = []
        for group, common in groups:
            least = settings.tenant_siblings if len(common) > 1 or common & beside_id else settings.slug_siblings
            if len(group) >= least:
                found.append(group)
        leaves = {name for name in names if not endings[name]}
        slugs = {name for name in leaves if _SLUG_LIKE.fullmatch(name)}
        if len(leaves) >= settings.leaf_names:
            found.append(leaves)
        elif len(slugs) >= settings.leaf_slugs:
            found.append(slugs)
        return max(found, key=lambda group: (len(group), sorted(group))) if found else set()


def _keep_literal(endings: set[PathSegments]) -> set[PathSegments]:
    """Return the endings that have a fixed segment: others say nothing about what stands above them."""
    return {ending for ending in endings if any(segment not in {ID, SLUG} for segment in ending)}


def _group_by_endings(endings: dict[str, set[PathSegments]]) -> list[tuple[set[str], set[PathSegments]]]:
    """Return groups of segments whose paths end alike, each with the endings that at least two of them share."""
    groups: list[tuple[set[str], set[PathSegments], set[PathSegments]]] = []
    for name in sorted(endings, key=lambda name: (-len(endings[name]), name)):
        own = endings[name]
        if not own:
            continue
        for group, union, common in groups:
            shared = own & union
            if len(shared) >= _SAME_ENDINGS * len(own):
                group.add(name)
                common.update(shared)
                union.update(own)
                break
        else:
            groups.append(({name}, set(own), set()))
    return [(group, common) for group, _, common in groups if len(group) > 1]
