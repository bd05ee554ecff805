"""The options of the tables of a catalog of state."""

from __future__ import annotations

PATH, UID, TABLE, READS = "state.path", "operator.uid", "state.name", "state.reads"
BATCH, AT, LATEST = "batch", "at", "latest-batch"
FROM, TO = "from-batch", "to-batch"
WITH_EXPIRED = "include-expired"
ROWS, CHANGES = "rows", "changes"
