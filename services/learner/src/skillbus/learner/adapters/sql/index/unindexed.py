"""Which items the index lacks, has at an older version, or got lately: newest first, as far as they fit a search."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, exists, literal_column, or_, select

from skillbus.contracts.learner.index import FindKnowledge
from skillbus.contracts.scope import ANY, match_scope
from skillbus.learner.adapters.sql.tables import KNOWLEDGE, TAGS

_SCANNED: Final = 2_000
"""So many, of which the filters but the scope's are true, are looked at for their scope: about 5 ms."""

_of = KNOWLEDGE.c
# As the partial index says it: of a value that is bound SQLite does not know that it fits.
UNINDEXED: Final = and_(_of.status == literal_column("'active'"), _of.indexed_version < _of.version)
_LATELY: Final = and_(_of.status == literal_column("'active'"), _of.indexed_at >= bindparam("since"))


def _newest(those: ColumnElement[bool]) -> Select[tuple[str, str]]:
    return (
        select(_of.id, _of.scope)
        .where(
            _of.project.in_(bindparam("projects", expanding=True)),
            those,
            or_(_of.valid_from.is_(None), _of.valid_from <= bindparam("at")),
            or_(_of.valid_to.is_(None), _of.valid_to > bindparam("at")),
        )
        .order_by(_of.updated_at.desc(), _of.id.desc())
        .limit(bindparam("most"))
    )


_NEWEST_UNINDEXED: Final = _newest(UNINDEXED)
_NEWEST_LATELY: Final = _newest(_LATELY)


def newest_unindexed(
    connection: Connection, wanted: FindKnowledge, projects: Sequence[str], at: datetime, since: datetime | None
) -> list[str]:
    """At most `wanted.unindexed` ids that are no candidates, then as many that were indexed since a moment."""
    if not wanted.unindexed:
        return []
    most = _SCANNED if wanted.scope is not None else wanted.unindexed + len(wanted.ids)
    asked = {"projects": projects, "at": at, "most": most}
    unindexed = _fitting(connection, _NEWEST_UNINDEXED, wanted, asked)
    if since is None:
        return unindexed
    lately = _fitting(connection, _NEWEST_LATELY, wanted, {**asked, "since": since})
    return list(dict.fromkeys((*unindexed, *lately)))


def _fitting(
    connection: Connection, newest: Select[tuple[str, str]], wanted: FindKnowledge, asked: Mapping[str, object]
) -> list[str]:
    for condition in _conditions(wanted):
        newest = newest.where(condition)
    candidates = frozenset(wanted.ids)
    found = connection.execute(newest, asked)
    fitting = [row.id for row in found if row.id not in candidates and _covers(row.scope, wanted.scope)]
    return fitting[: wanted.unindexed]


def _conditions(wanted: FindKnowledge) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.types:
        conditions.append(_of.type.in_([kind.value for kind in wanted.types]))
    if wanted.sources:
        conditions.append(_of.source.in_(wanted.sources))
    if wanted.tags:
        conditions.append(_tagged(wanted.tags))
    conditions.extend(_tagged((tag,)) for tag in wanted.all_tags)
    if wanted.scope is not None and ANY not in wanted.scope:
        # What is neither a pattern nor above it says nothing about it. `match` decides.
        conditions.append(or_(_of.scope.in_(_above(wanted.scope)), _of.scope.contains(ANY, autoescape=True)))
    return conditions


def _tagged(tags: Collection[str]) -> ColumnElement[bool]:
    return exists().where(TAGS.c.id == _of.id, TAGS.c.tag.in_(tags))


def _above(scope: str) -> list[str]:
    """A scope without `*`, and whatever it begins with, down to everything."""
    ends = [at for at, character in enumerate(scope) if character in "/:"]
    return [scope, *(scope[:at] for at in ends), *(scope[: at + 1] for at in ends), ""]


def _covers(scope: str, wanted: str | None) -> bool:
    return wanted is None or match_scope(scope, wanted) is not None
