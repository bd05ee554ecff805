"""The table of expired rows that later rows needed: what an audit of the state of a job recorded.

Importing this loads no engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, Role
from stateplan.common.types import BIGINT, DOUBLE, INSTANT, INT, STRING, LogicalType
from stateplan.connectors.protocol import Connector, Offset, OffsetSource, Source, SourceTable
from stateplan.connectors.splits import Split
from stateplan.plans.state.state_options import LATEST, PATH, table_name

if TYPE_CHECKING:
    import polars as pl

    from stateplan.plans.state.reader import CheckpointReader
    from stateplan.runtime.audit import AuditRecord


@dataclass(frozen=True)
class LostRowColumn:
    """A column of the table.

    Attributes:
        name, type: its name and type.
        field: the field of the record that it shows.
        comment: what it holds.
    """

    name: str
    type: LogicalType
    field: str
    comment: str


COLUMNS = (
    LostRowColumn("state", STRING, "state", "the name of the state table"),
    LostRowColumn("state_key", STRING, "key", "the key of the row, as JSON"),
    LostRowColumn("lost_row", STRING, "row", "the row that had expired, as JSON"),
    LostRowColumn("needed_for", STRING, "use", "refreshed, joined, deduplicated or retracted"),
    LostRowColumn("access_time", INSTANT, "accessed_at", "its last access"),
    LostRowColumn("expired_at", INSTANT, "expired_at", "when it expired"),
    LostRowColumn("needed_at", INSTANT, "needed_at", "when it was needed"),
    LostRowColumn("needed_by_input", INT, "input", "the input of the operator, from 0"),
    LostRowColumn("needed_by_row", STRING, "by", "the first row that needed it, as JSON"),
    LostRowColumn("key_fraction", DOUBLE, "fraction", "the share of keys that were followed"),
    LostRowColumn("micro_batch", BIGINT, "batch", "the micro-batch in which it was needed"),
)


class LostRowsConnector(Connector):
    """Expired rows that later rows needed."""

    name = "state-audit"
    description = "Expired rows that later rows needed. A catalog of type `state` has this table."
    options = (
        Option(PATH, OptionType.STRING, "Path of the checkpoint.", role=Role.SOURCE, is_required=True),
        Option(
            LATEST, OptionType.LONG, "The last micro-batch when the statement was planned.", role=Role.SOURCE, minimum=0
        ),
    )
    roles = (Role.SOURCE,)
    abilities = frozenset({"ProjectPushDown"})
    history_gap = "records are kept for the retention of the audit"

    def source(self, table: SourceTable) -> Source[Any]:
        """Raises CheckpointError: as :func:`plans.state.rooted_reader.open_checkpoint`."""
        from stateplan.plans.state.rooted_reader import open_checkpoint
        from stateplan.runtime.audit import record_of

        reader = open_checkpoint(table.options[PATH])
        fields = {c.name: c for c in COLUMNS}
        columns = tuple(fields[table.fields[i][0]] for i in table.projection)
        last = table.value(LATEST)
        return LostRowsSource(
            record_of(reader.snapshot.folder), _names(reader), columns, reader.snapshot.batch if last is None else last
        )


def _names(reader: CheckpointReader) -> dict[tuple[str, str], str]:
    """The names of the state tables, by the uid of the operator and their name there."""
    return {
        (state.operator.entry.uid, table.table.name): table_name(state, table)
        for state in reader.states
        for table in state.tables
    }


@dataclass(frozen=True, kw_only=True)
class RecordSplit(Split):
    """The records of the micro-batches up to ``batch``."""

    batch: int


@dataclass
class LostRowsSource(OffsetSource[RecordSplit]):
    """The records of an audit, read once.

    Attributes:
        record: where they are.
        names: of the state tables, by the uid of the operator and their name there.
        columns: those that are read.
        batch: the last micro-batch.
    """

    record: AuditRecord
    names: Mapping[tuple[str, str], str]
    columns: tuple[LostRowColumn, ...]
    batch: int
    split_type = RecordSplit

    def initial_offset(self) -> Offset:
        return {}

    def latest_offset(self, start: Offset) -> Offset:
        return start or {"batch": self.batch}

    def plan(self, start: Offset, end: Offset) -> list[RecordSplit]:
        return [] if start == end else [RecordSplit(batch=end["batch"])]

    def size(self) -> int:
        """Bytes of the files. Raises OSError."""
        return self.record.size()

    def read(self, split: RecordSplit) -> Iterator[pl.DataFrame]:
        """Raises OSError."""
        import polars as pl

        from stateplan.common.changelog import column

        records = self.record.read().filter(pl.col("batch") <= split.batch)
        states = [
            self.names.get((uid, table), f"{uid}.{table}")
            for uid, table in zip(records["uid"].to_list(), records["table"].to_list(), strict=True)
        ]
        records = records.with_columns(pl.Series("state", states, dtype=pl.String))
        yield records.select(
            pl.col(c.field).cast(c.type.polars()).alias(column(i))
            if c.type != INSTANT
            else pl.from_epoch(c.field, "ms").dt.replace_time_zone("UTC").cast(c.type.polars()).alias(column(i))
            for i, c in enumerate(self.columns)
        )
