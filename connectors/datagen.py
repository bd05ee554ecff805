"""The ``datagen`` connector: generates rows from the table's schema, for experiments and tests.

Row ``i`` has the same values in every run with the same seed and the same start time. ``fields.<column>.kind`` is
``random`` (the default) or ``sequence``. The table ends after the last value of a sequence, or after ``number-of-rows``
rows. ``fields.<row column>.<field>.*``, ``fields.<array column>.element.*``, ``fields.<map column>.key.*`` and
``.value.*`` configure the parts of a column. Random dates and times are the start time. Random timestamps are at most
``max-past`` before the start time.

The options are the rows of :class:`Datagen`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import Place
from stateplan.common.options import Option, OptionType, Role, parallelism, parse_value
from stateplan.common.types import LogicalType
from stateplan.connectors.datagen_columns import FIELD_OPTIONS, column_plans
from stateplan.connectors.protocol import Connector, RangeSource, Source, SourceTable
from stateplan.connectors.splits import RangeSplit

if TYPE_CHECKING:
    import polars as pl

_ROW_BYTES = 100
"""The assumed size of a row, in bytes. No row is generated to measure it."""

_NUMBER_OF_ROWS = Option("number-of-rows", OptionType.LONG, "Total number of rows. Default: unbounded.", minimum=0)


def bounded(options: Mapping[str, str]) -> int | None:
    """The number of rows of the table; None if it is unbounded."""
    limits = []
    if "number-of-rows" in options:
        limits.append(int(parse_value(_NUMBER_OF_ROWS, options["number-of-rows"])))
    for key, value in options.items():
        if key.startswith("fields.") and key.endswith(".kind") and value.lower() == "sequence":
            prefix = key.removesuffix("kind")
            if prefix + "start" in options and prefix + "end" in options:
                limits.append(max(0, int(options[prefix + "end"]) - int(options[prefix + "start"]) + 1))
    return min(limits) if limits else None


class DatagenGenerator:
    """Rows of a table by their number. Picklable; equal arguments produce equal rows.

    Args:
        options: the table's options.
        fields: name and type of its physical columns.
        seed: another seed gives other random values.
        now: the start time in milliseconds since 1970; random times refer to it. The time of the call when absent.

    Attributes:
        bounded: number of rows of the table, or None if it has no end.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        fields: Sequence[tuple[str, LogicalType]],
        seed: int = 0,
        now: int | None = None,
    ) -> None:
        self.plans = column_plans(options, fields)
        self.seed = seed
        self.now = int(time.time() * 1000) if now is None else now
        self.bounded = bounded(options)

    def rows(self, start: int, end: int) -> pl.DataFrame:
        """Rows ``start`` to ``end`` (exclusive), ``c0..cn``; fewer when the table ends before."""
        from stateplan.connectors.datagen_values import make_frame

        if self.bounded is not None:
            end = min(end, self.bounded)
        return make_frame(self.plans, self.seed, self.now, start, max(start, end))


class Datagen(Connector):
    """Rows made up from the schema."""

    name = "datagen"
    description = "Generated rows, with random values or sequences for the columns of the table."
    options = (
        Option("rows-per-second", OptionType.LONG, "Rows per second.", default=10000, minimum=1),
        _NUMBER_OF_ROWS,
        parallelism(Role.SOURCE, "the number of readers does not affect the rows"),
        *FIELD_OPTIONS,
    )
    roles = (Role.SOURCE,)
    abilities = frozenset({"LimitPushDown"})
    planner_gives_uid = True

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        kinds = [v for k, v in options.items() if k.startswith("fields.") and k.endswith(".kind")]
        return "number-of-rows" in options or "sequence" in kinds

    def check_schema(
        self, options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]], place: Place | None
    ) -> None:
        column_plans(options, fields, place)

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        return None

    def source(self, table: SourceTable) -> Source[Any]:
        options = dict(table.options)
        if table.limit is not None:
            options["number-of-rows"] = str(min(table.limit, int(options.get("number-of-rows", table.limit))))
        generator = DatagenGenerator(options, table.fields, now=table.start_time)
        return DatagenSource(generator, table.value("rows-per-second"))


class DatagenSource(RangeSource):
    """Makes ranges of rows, ``step`` at a time."""

    step = 65536

    def __init__(self, generator: DatagenGenerator, per_second: int) -> None:
        self.generator = generator
        self.total = generator.bounded
        self.bounded = self.total is not None
        self.per_second = per_second

    def size(self) -> int | None:
        return 0 if self.total is None else self.total * _ROW_BYTES

    def read(self, split: RangeSplit) -> Iterator[pl.DataFrame]:
        for start in range(split.start, split.stop, self.step):
            yield self.generator.rows(start, min(start + self.step, split.stop))
