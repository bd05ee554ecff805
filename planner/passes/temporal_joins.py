"""Joins with a versioned table: by which key versions are told apart, and what keeps such a join from running.

Source: Flink's ``TemporalJoinRewriteWithUniqueKeyRule`` and ``StreamPhysicalTemporalJoinRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.errors import SqlError
from stateplan.planner.algebra.join_keys import equi_keys
from stateplan.planner.algebra.relations import (
    Rel,
    field_names,
)
from stateplan.planner.algebra.temporal import TemporalJoin
from stateplan.planner.metadata.unique_keys import unique_keys


def key_of_versions(rel: Rel) -> Rel | None:
    """The join with its primary key: a unique key of the versioned table within the join's own key.

    Raises:
        SqlError: SQL147, no join key; SQL148, no such unique key; SQL149, what Flink has no operator for.
    """
    if not isinstance(rel, TemporalJoin) or rel.primary_key:
        return None
    pairs = equi_keys(rel.condition, rel.left.width)
    if not pairs:
        raise SqlError("SQL147.key_of_versions", place=rel.place)
    if rel.join_type not in ("INNER", "LEFT"):
        raise SqlError("SQL149.key_of_versions", join_type=rel.join_type, place=rel.place)
    if rel.right_time is None:
        raise SqlError("SQL149.key_of_versions_2", place=rel.place)
    keys = frozenset(k for _, k in pairs)
    found = sorted((tuple(sorted(k)) for k in unique_keys(rel.right) if k and k <= keys), key=lambda k: (len(k), k))
    if not found:
        names = field_names(rel.right)
        raise SqlError("SQL148.key_of_versions", keys=", ".join(names[k] for k in sorted(keys)), place=rel.place)
    return replace(rel, primary_key=found[0])
