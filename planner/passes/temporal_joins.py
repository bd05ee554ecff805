"""Joins with a versioned table: by which key versions are told apart, and what keeps such a join from running.

Source: Flink's ``TemporalJoinRewriteWithUniqueKeyRule`` and ``StreamPhysicalTemporalJoinRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.errors import SqlError
from stateplan.planner.algebra.relations import (
    Rel,
    field_names,
)
from stateplan.planner.algebra.temporal import TemporalJoin
from stateplan.planner.metadata.unique_keys import unique_keys
from stateplan.planner.passes.push_filters import equi_keys


def key_of_versions(rel: Rel) -> Rel | None:
    """The join with its primary key: a unique key of the versioned table within the join's own key.

    Raises:
        SqlError: SQL147, no join key; SQL148, no such unique key; SQL149, what Flink has no operator for.
    """
    if not isinstance(rel, TemporalJoin) or rel.primary_key:
        return None
    pairs = equi_keys(rel.condition, rel.left.width)
    if not pairs:
        raise SqlError(
            "SQL147",
            "the join key of a temporal table join cannot be empty",
            place=rel.place,
            expected="ON with an equality of a column of the left table and the primary key of the versioned table",
        )
    if rel.join_type not in ("INNER", "LEFT"):
        raise SqlError(
            "SQL149",
            f"there is no temporal {rel.join_type} JOIN",
            place=rel.place,
            expected="JOIN or LEFT JOIN, the versioned table on the right",
        )
    if rel.right_time is None:
        raise SqlError(
            "SQL149",
            "a processing-time temporal join is supported with a table whose rows can be looked up only",
            place=rel.place,
            expected="a table on the right, not a view or query, of a connector that finds rows by key: filesystem",
            hint="use the event time of the left table, and a table or view with versions by event time on the right",
        )
    keys = frozenset(k for _, k in pairs)
    found = sorted((tuple(sorted(k)) for k in unique_keys(rel.right) if k and k <= keys), key=lambda k: (len(k), k))
    if not found:
        names = field_names(rel.right)
        raise SqlError(
            "SQL148",
            "a temporal table join requires the primary key of the versioned table in its join key, but no primary key "
            f"can be found in ({', '.join(names[k] for k in sorted(keys))})",
            place=rel.place,
            expected="PRIMARY KEY (...) NOT ENFORCED in the versioned table, or a view that keeps the last row of each "
            "key by event time, and all columns of that key in ON",
        )
    return replace(rel, primary_key=found[0])
