"""What a statement gives back."""

from __future__ import annotations

import enum
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.errors import RunError
from stateplan.common.importing import importing
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import hex_id, render
from stateplan.common.types import BIGINT, BOOLEAN, STRING, LogicalType
from stateplan.common.values.row import Row
from stateplan.session.habits import OF_RESULT, AttributeHints

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from stateplan.connectors.results import ResultChannel
    from stateplan.plans.document import TtlGiven
    from stateplan.plans.live import LiveEdit
    from stateplan.runtime.job import Job
    from stateplan.session.materialized import Materialized
    from stateplan.session.notebook import ResultView


class ResultKind(enum.Enum):
    """Whether a statement returns rows, or only that it is done."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


class CloseableIterator(Iterator[Row]):
    """Rows that come one by one. Source: PyFlink's class of this name.

    Args:
        rows: the rows that arrive.
        close: gives up what is left.
    """

    def __init__(self, rows: Iterator[Row], close: Callable[[], None]) -> None:
        self._rows, self._close = rows, close

    def __next__(self) -> Row:
        return next(self._rows)

    def close(self) -> None:
        """Ends the job of a query, and drops its rows."""
        self._close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(repr=False)
class TableResult(AttributeHints):
    """The result of a statement: rows, or a job that has been started.

    Attributes:
        columns: names of the columns.
        types: their types.
        rows: the rows; those of INSERT and EXECUTE PLAN hold -1 for each sink, as in Flink.
        kind: see :class:`ResultKind`.
        job: the job the statement started, if any.
        notes: for the user, beside the rows.
        statement: the kind of statement, such as ``CREATE TABLE``.
        channel: where the rows of a query come from, while its job runs; None for other statements.
        insert_only: whether the rows of a query are all insertions.
        zone: the session's time zone, for values as text.
    """

    _REPLACEMENTS = OF_RESULT

    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    rows: list[tuple[object, ...]]
    kind: ResultKind
    job: Job | None = None
    notes: tuple[str, ...] = ()
    statement: str = ""
    channel: ResultChannel | None = field(default=None, repr=False)
    insert_only: bool = True
    zone: str = "UTC"
    _is_collected: bool = field(default=False, init=False, compare=False)
    _table: Materialized | None = field(default=None, init=False, compare=False)

    @property
    def job_notes(self) -> tuple[str, ...]:
        """The messages of the job for its user so far, such as windows of processing time that were open when the input
        ended."""
        return () if self.job is None else self.job.notes

    def get_result_kind(self) -> ResultKind:
        """Whether there are rows."""
        return self.kind

    def get_job_client(self) -> Job | None:
        """The job, if the statement started one."""
        return self.job

    def get_column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    def collect(self) -> CloseableIterator:
        """The rows. Those of a query come while its job runs, once, as changes: see :meth:`Row.get_row_kind`. Leaving
        the loop does not end the job of an unbounded query; :meth:`close` does, and so does the end of a ``with``
        block over the rows, as in PyFlink.

        Raises:
            StateplanError: what made the job fail, after its last row.
        """
        return CloseableIterator(self._changes(), self.close)

    def _changes(self) -> Iterator[Row]:
        if self.channel is None:
            yield from (Row.of(self.columns, row) for row in self.rows)
            return
        from stateplan.common.values.codecs import codec

        decoders = [codec(column_type).decoder() for column_type in self.types]
        for frame in self.frames():
            lists = [frame[column(i)].to_list() for i in range(len(self.types))]
            values = [
                cells if decode is None else [None if cell is None else decode(cell) for cell in cells]
                for cells, decode in zip(lists, decoders, strict=True)
            ]
            kinds = frame[KIND].to_list() if KIND in frame.columns else [0] * frame.height
            for kind, row in zip(kinds, zip(*values, strict=True), strict=True):
                yield Row.of(self.columns, row).of_kind(RowKind(kind))

    def frames(self) -> Iterator[pl.DataFrame]:
        """The rows of a query as frames, while its job runs. They can be read once.

        The columns are ``c0, c1, ...``, and ``kind`` (see :class:`RowKind`) unless all rows are insertions.

        Raises:
            RunError: RUN054, the rows were read before, by :meth:`to_arrow` and the like or by a notebook.
            StateplanError: the error of the job, after its last row.
        """
        assert self.channel is not None
        if self._table is not None:
            raise RunError("RUN054", how="taken as a table")
        self._is_collected = True
        while not self.channel.is_exhausted:
            frame = self.channel.take(0.2)
            if frame is not None:
                yield frame

    def materialized(self) -> Materialized:
        """The rows of a query as a table that its readers share; its changes cannot be collected any more.

        Raises:
            RunError: RUN054, they have been collected.
        """
        from stateplan.session.materialized import Materialized

        assert self.channel is not None
        if self._is_collected:
            raise RunError("RUN054", how="collected")
        if self._table is None:
            self._table = Materialized(self.channel, self.types)
        return self._table

    def to_arrow(self, limit_rows: int | None = None, timeout_ms: int | None = None) -> Any:
        """The final rows, as a ``pyarrow.Table``: those of a query after all its changes, in the order of their
        insertions. Waits for them. The types are exact; TIMESTAMP_LTZ has the session's time zone.

        With a limit or a timeout, the job ends with it, and the rows are those so far. A query without an end needs
        one of them.

        Args:
            limit_rows: this number of rows are enough.
            timeout_ms: so long is long enough.

        Raises:
            RunError: RUN053, the query has no end, and neither is given; RUN054, the rows were collected.
            StateplanError: what made the job fail.
        """
        from stateplan.common.values.arrow import arrow_table

        return arrow_table(self._final(limit_rows, timeout_ms), self.columns, self.types, self.zone)

    def to_pandas(self, limit_rows: int | None = None, timeout_ms: int | None = None) -> pd.DataFrame:
        """The final rows, as a ``pandas.DataFrame``; see :meth:`to_arrow`. Whole numbers and booleans have pandas'
        nullable types where there are NULLs, so that no value is rounded. A MAP is a dict."""
        with importing():
            import_module("pandas")
            from stateplan.common.values.arrow import pandas_frame
        return pandas_frame(self.to_arrow(limit_rows, timeout_ms))

    def to_polars(self, limit_rows: int | None = None, timeout_ms: int | None = None) -> pl.DataFrame:
        """The final rows, as a ``polars.DataFrame``; see :meth:`to_arrow`."""
        import polars as pl

        return pl.DataFrame(pl.from_arrow(self.to_arrow(limit_rows, timeout_ms)))

    def _final(self, limit_rows: int | None, timeout_ms: int | None) -> pl.DataFrame:
        if self.channel is None:
            return self._content().head(len(self.rows) if limit_rows is None else limit_rows)
        table = self.materialized()
        if table.dropped_rows:
            raise RunError("RUN054", how="taken as a table")
        if limit_rows is timeout_ms is None and self.job is not None and not self.job.bounded:
            raise RunError("RUN053")
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while not table.is_exhausted:
            left = 0.2 if deadline is None else min(0.2, deadline - time.monotonic())
            if left <= 0 or (limit_rows is not None and table.rows().height >= limit_rows):
                self.close()
                break
            table.pull(left)
        rows = table.rows()
        return rows if limit_rows is None else rows.head(limit_rows)

    def _content(self) -> pl.DataFrame:
        """The rows of a statement that is not a query."""
        import polars as pl

        from stateplan.common.values.codecs import codec
        from stateplan.common.values.plain_text import reader

        columns = {}
        for i, kind in enumerate(self.types):
            read, encode = reader(kind, self.zone), codec(kind).encode
            values = (row[i] for row in self.rows)
            cells = [encode(read(value)) if isinstance(value, str) else value for value in values]
            columns[column(i)] = pl.Series(cells, dtype=kind.polars())
        return pl.DataFrame(columns, height=len(self.rows))

    def view(self) -> ResultView:
        """What a notebook shows of the rows: the last ones, and how many there are."""
        from stateplan.session.notebook import ResultView

        rows, count = None, 0
        if self.channel is None:
            rows, count = self._content(), len(self.rows)
        elif self._table is not None:
            rows = self._table.rows()
            count = rows.height + self._table.dropped_rows
        view = ResultView.of(self.columns, self.types, self.zone, rows, count)
        if self.job is None:
            return view
        return replace(
            view,
            status=self.job.status.value,
            error=None if self.job.error is None else str(self.job.error),
            notes=self.job_notes,
        )

    def close(self) -> None:
        """Ends the job of a query, and drops its rows."""
        if self.channel is not None:
            self.channel.discard()
            if self.job is not None:
                self.job.stop()

    def __enter__(self) -> TableResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, timeout_ms: int | None = None) -> bool:
        """Waits for the job; returns whether it is done (True at once when there is none). For a query, waits until
        there are rows to collect, or there will be none.

        Raises:
            StateplanError: what made the job fail.
        """
        if self.job is None:
            return True
        if self.channel is not None:
            return self.channel.wait(None if timeout_ms is None else timeout_ms / 1000)
        return self.job.wait(None if timeout_ms is None else timeout_ms / 1000)

    def set_ttl(self, ttls: Mapping[str, TtlGiven], timeout_ms: int | None = None) -> LiveEdit:
        """Asks the running job for other TTLs, by selector: ``{"join.right": "2 h"}``; the next micro-batch takes them
        in. Waits for that when ``timeout_ms`` is given.

        Raises:
            RunError: RUN051, the statement started no job; RUN057, its job has no checkpoint.
            StateplanError: as :func:`plans.live.set_live_ttls`.
        """
        from stateplan.plans.live import set_live_ttls

        if self.job is None:
            raise RunError("RUN051")
        if self.job.checkpoint is None:
            raise RunError("RUN057")
        return set_live_ttls(self.job.checkpoint, ttls, None if timeout_ms is None else timeout_ms / 1000)

    def print(self) -> None:
        """Writes the rows to standard output, as a table in the style of Flink's SQL client; only ``OK`` if there is
        nothing else to report. The rows of a query are written while its job runs, until it ends; for other statements
        this waits for the job first."""
        if self.channel is None:
            self.wait()
            print(self.to_text())
            return
        from stateplan.session.tableau import Tableau

        table = Tableau(self.columns, self.types, self.zone, self.insert_only)
        for text in table.stream(self.frames()):
            sys.stdout.write(text)
            sys.stdout.flush()

    def to_text(self) -> str:
        """The rows as :meth:`print` writes them."""
        if self.kind is ResultKind.SUCCESS:
            return "OK"
        texts = [value for row in self.rows for value in row if isinstance(value, str) and "\n" in value]
        if texts:
            return "\n".join(texts)
        return render(self.columns, self.rows).rstrip("\n")

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind.summary()}" for name, kind in zip(self.columns, self.types, strict=True))
        job = "" if self.job is None else f", job {hex_id(self.job.job_id)} {self.job.status.value}"
        return f"TableResult({self.statement}: {columns}{job})"

    def _repr_html_(self) -> str:
        """The rows there are, for a notebook. Takes none of a query whose rows may still be collected."""
        return self.view().html()

    def _ipython_display_(self) -> None:
        """Shows the rows in a notebook, those of a query while its job runs; from then on they cannot be collected."""
        from stateplan.session.notebook import show

        show(self)

    def rows_to_come(self) -> Materialized | None:
        """The rows of a query, unless they are being collected; None for other statements."""
        return None if self.channel is None or self._is_collected else self.materialized()

    @property
    def is_endless(self) -> bool:
        """Whether it only inserts, and does not end by itself."""
        return self.insert_only and self.job is not None and not self.job.bounded


OK: tuple[object, ...] = ("OK",)


def ok(statement: str, notes: Sequence[str] = ()) -> TableResult:
    """The result of a statement that gives no rows."""
    return TableResult(("result",), (STRING,), [OK], ResultKind.SUCCESS, None, tuple(notes), statement)


def content(
    statement: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    notes: Sequence[str] = (),
    types: Sequence[LogicalType] | None = None,
) -> TableResult:
    """A result of rows; by default a column's type is that of its first value that is not None."""
    if types is None:
        types = [_type_of([row[i] for row in rows]) for i in range(len(columns))]
    row_tuples = [tuple(row) for row in rows]
    return TableResult(
        tuple(columns), tuple(types), row_tuples, ResultKind.SUCCESS_WITH_CONTENT, None, tuple(notes), statement
    )


def _type_of(values: Sequence[object]) -> LogicalType:
    first = next((v for v in values if v is not None), None)
    return BOOLEAN if isinstance(first, bool) else BIGINT if isinstance(first, int) else STRING


def as_column(kind: LogicalType) -> LogicalType:
    """The type without the mark of a time attribute, which a sink's column cannot have."""
    return replace(kind, kind=None)


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    unique_names: list[str] = []
    for name in names:
        count = itertools.count(0)
        candidate = name
        while candidate in unique_names:
            candidate = f"{name}{next(count)}"
        unique_names.append(candidate)
    return unique_names
