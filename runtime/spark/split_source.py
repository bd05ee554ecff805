"""Splits that a source of a connector plans itself, as a streaming source of Spark: PySpark's Python data source.

Spark keeps the offsets of each micro-batch in its offset log before the micro-batch runs, and asks for the splits
between them again when it runs again. The source plans in a Python process next to the driver, which lives as long as
the query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from stateplan.common.errors import StateplanError
from stateplan.common.roots import Roots, current_roots, holding
from stateplan.connectors.protocol import Offset, OffsetSource
from stateplan.runtime.beginnings import first_offset

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stateplan.common.secrets import Environment

T = TypeVar("T")

SCHEMA = "split STRING, seq STRING"
"""A split as JSON, and its place among those of its micro-batch."""


class SplitReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc] # a base without types
    """Plans the splits of a source for Spark.

    Args:
        source: the source.
        tasks: into how many tasks the splits of a micro-batch are put.
        environment: the environment that its references need.
        roots: the roots of the job.
        acknowledges: whether the source learns what has been committed.
    """

    def __init__(
        self,
        source: OffsetSource[Any],
        tasks: int,
        environment: Environment | None = None,
        roots: Roots | None = None,
        acknowledges: bool = True,
    ) -> None:
        self.acknowledges = acknowledges
        self.environment = environment
        self.roots = roots
        self.source = source
        self.tasks = tasks

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's names
        return self._with_coded_errors(lambda: first_offset(self.source))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        return self._with_coded_errors(lambda: self.source.latest_offset(start))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """A bounded source says itself when it has ended."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        splits = [] if start == end else self._with_coded_errors(lambda: self.source.plan(start, end))
        tasks = max(1, min(self.tasks, len(splits)))
        edges = [len(splits) * i // tasks for i in range(tasks + 1)]
        numbered_splits = list(enumerate(json.dumps(split.to_json()) for split in splits))
        return [InputPartition(numbered_splits[a:b]) for a, b in pairwise(edges) if a < b]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        texts = [text for _, text in partition.value]
        places = [f"{number:010d}" for number, _ in partition.value]
        yield pa.record_batch([pa.array(texts, pa.string()), pa.array(places, pa.string())], ["split", "seq"])

    def commit(self, end: Offset) -> None:
        if not self.acknowledges:
            return
        self._with_coded_errors(lambda: self.source.committed(end))

    def _with_coded_errors(self, call: Callable[[], T]) -> T:
        """What the source answers; its errors in the form that the driver finds again in Spark's."""
        try:
            with holding(self.roots):
                return call()
        except StateplanError as error:
            raise RuntimeError(error.encoded()) from None


def split_frame(
    spark: SparkSession, name: str, source: OffsetSource[Any], tasks: int, environment: Environment | None
) -> DataFrame:
    """The streaming frame of the splits of a source, with the columns :data:`SCHEMA`.

    Args:
        spark: the session.
        name: distinguishes the sources of the session.
        source: the source.
        tasks: into how many tasks the splits of a micro-batch are put.
        environment: the environment that its references need.
    """

    planning, roots, acknowledges = source.for_planning(), current_roots(), source.acknowledges

    class Splits(DataSource):  # type: ignore[misc] # a base without types
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: Any) -> SplitReader:  # noqa: N802
            return SplitReader(planning, tasks, environment, roots, acknowledges)

    spark.dataSource.register(Splits)
    return spark.readStream.format(name).load()
