"""Snapshots that a sink removes from the metadata of its table, which each commit writes again.

Source: the properties ``history.expire.*`` of Iceberg's specification, and ``ExpireSnapshots`` of the library, which
removes no files.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stateplan.connectors.iceberg.epochs import lineage

if TYPE_CHECKING:
    from pyiceberg.table import Table

EVERY = 50
"""Micro-batches between two looks."""


def old_snapshots(table: Table, now: int) -> list[int]:
    """The snapshots that have expired: too old, not among the latest ones, and with no branch or tag.

    Args:
        table: the table.
        now: the time, ms.
    """
    from pyiceberg.table import TableProperties as Properties
    from pyiceberg.utils.properties import property_as_int

    default_age, default_count = Properties.MAX_SNAPSHOT_AGE_MS_DEFAULT, Properties.MIN_SNAPSHOTS_TO_KEEP_DEFAULT
    age = property_as_int(table.properties, Properties.MAX_SNAPSHOT_AGE_MS, default_age) or default_age
    count = property_as_int(table.properties, Properties.MIN_SNAPSHOTS_TO_KEEP, default_count) or default_count
    heads = {ref.snapshot_id for ref in table.refs().values()}
    older = list(lineage(table))[max(1, count) :]
    return [s.snapshot_id for s in older if s.timestamp_ms < now - age and s.snapshot_id not in heads]


def expire(table: Table) -> None:
    """Removes expired snapshots in a commit of its own. Raises as the library."""
    snapshots = old_snapshots(table, int(time.time() * 1000))
    if snapshots:
        table.maintenance.expire_snapshots().by_ids(snapshots).commit()
