"""The micro-batches that an Iceberg table has: each commit notes its own in the summary of its snapshot.

Snapshots expire. So the last micro-batch of a statement is also a property of the table, which the same commit sets. It
counts only for a snapshot that is older than those that there are: after a rollback of the table, its snapshots say
what it has.

Source: the summaries that Iceberg's Flink sink writes (``flink.max-committed-checkpoint-id``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stateplan.connectors.sink_epochs import Ledger, Mark, input_digest, is_of_other_checkpoint, statement_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

SINK, EPOCH, INPUT, PLACES = "stateplan.sink", "stateplan.epoch", "stateplan.input", "stateplan.replaced-partitions"
"""Keys of the summary of a snapshot: the uid of the sink, the number of the micro-batch, the digest of its input, and
the partitions that it replaces."""

_PROPERTY = "stateplan.last-epoch."


def property_of(uid: str) -> str:
    """The property of a table for the statement of a sink."""
    return _PROPERTY + input_digest((statement_of(uid) or uid).encode())


def snapshots_of(table: Table) -> dict[int, Snapshot]:
    """Id to snapshot."""
    return {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}


def lineage(table: Table) -> Iterator[Snapshot]:
    """The current snapshot, and those from which it has come, from the latest on."""
    snapshots = snapshots_of(table)  # the library looks for an id one by one
    at = table.current_snapshot()
    while at is not None:
        yield at
        at = None if at.parent_snapshot_id is None else snapshots.get(at.parent_snapshot_id)


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)


def last_mark(table: Table, uid: str) -> Mark | None:
    """The last micro-batch of a sink that a table has; None for none."""
    oldest: Snapshot | None = None
    for snapshot in lineage(table):
        oldest, summary = snapshot, _summary(snapshot)
        if summary.get(SINK) == uid:
            return Mark(int(summary[EPOCH]), summary.get(INPUT, ""))
    note = _note(table, uid)
    is_expired = oldest is not None and note.get("sink") == uid and note["sequence"] < (oldest.sequence_number or 0)
    return Mark(int(note["epoch"]), str(note["input"])) if is_expired else None


def _note(table: Table, uid: str) -> dict[str, Any]:
    note: dict[str, Any] = json.loads(table.properties.get(property_of(uid), "{}"))
    return note


def has_other_checkpoint(table: Table, uid: str) -> bool:
    """Whether the statement of a sink has written to the table with another checkpoint."""
    sinks = [_summary(snapshot).get(SINK, "") for snapshot in lineage(table)]
    sinks.append(str(_note(table, uid).get("sink", "")))
    return any(is_of_other_checkpoint(sink, uid) for sink in sinks if sink)


def replaced_partitions(table: Table, uid: str) -> set[str]:
    """The partitions that earlier micro-batches of a sink have replaced."""
    places: set[str] = set()
    for snapshot in lineage(table):
        summary = _summary(snapshot)
        if summary.get(SINK) == uid:
            places |= set(json.loads(summary.get(PLACES, "[]")))
    return places


def summary_of(uid: str, ledger: Ledger, epoch: int, places: Sequence[str] = ()) -> dict[str, str]:
    """What the summary of a micro-batch's snapshot says."""
    hand = ledger.hand(epoch)
    summary = {SINK: uid, EPOCH: str(epoch)}
    if hand.input:
        summary[INPUT] = hand.input
    if places:
        summary[PLACES] = json.dumps(list(places))
    return summary


def properties_of(table: Table, uid: str, ledger: Ledger, epoch: int) -> dict[str, Any]:
    """The property that the same commit sets."""
    hand = ledger.hand(epoch)
    sequence = table.metadata.next_sequence_number()
    note = {"sink": uid, "epoch": epoch, "input": hand.input, "sequence": sequence}
    return {property_of(uid): json.dumps(note)}
