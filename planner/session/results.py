"""What a statement gives back."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stateplan.execnodes.errors import RunError
from stateplan.execnodes.readable import render
from stateplan.execnodes.types import BIGINT, BOOLEAN, STRING, LogicalType

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.job import JobResult
    from stateplan.plans.live import LiveEdit


class ResultKind(enum.Enum):
    """Whether a statement gives rows, or only that it is done."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


@dataclass
class TableResult:
    """The result of a statement: rows, or a job that has been started.

    Attributes:
        columns: names of the columns.
        types: their types.
        rows: the rows; those of INSERT and EXECUTE PLAN hold -1 for each sink, as in Flink.
        kind: see :class:`ResultKind`.
        job: the job the statement started, if any.
        notes: for the user, beside the rows.
        statement: the kind of statement, such as ``CREATE TABLE``.
    """

    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    rows: list[tuple[object, ...]]
    kind: ResultKind
    job: JobResult | None = None
    notes: tuple[str, ...] = ()
    statement: str = ""
    _taken: bool = field(default=False, repr=False)

    def get_result_kind(self) -> ResultKind:
        return self.kind

    def get_job_client(self) -> JobResult | None:
        """The job, if the statement started one."""
        return self.job

    def get_column_names(self) -> list[str]:
        return list(self.columns)

    def collect(self) -> Iterator[tuple[object, ...]]:
        """The rows, once.

        Raises:
            RunError: RUN050, for a query: its changes go to standard output while it runs.
        """
        if self.statement == "SELECT":
            raise RunError("RUN050")
        yield from self.rows

    def wait(self, timeout_ms: int | None = None) -> bool:
        """Waits for the job; returns whether it is done (True at once when there is none).

        Raises:
            StateplanError: what made the job fail.
        """
        if self.job is None:
            return True
        return self.job.wait(None if timeout_ms is None else timeout_ms / 1000)

    def set_ttl(self, ttls: Mapping[str, str | int], timeout_ms: int | None = None) -> LiveEdit:
        """Asks the running job for other TTLs, by selector: ``{"join.right": "2 h"}``; the next micro-batch takes them
        in. Waits for that when ``timeout_ms`` is given.

        Raises:
            RunError: RUN051, the statement started no job.
            StateplanError: as :func:`plans.live.set_live_ttls`.
        """
        from stateplan.plans.live import set_live_ttls

        if self.job is None:
            raise RunError("RUN051")
        return set_live_ttls(self.job.checkpoint, ttls, None if timeout_ms is None else timeout_ms / 1000)

    def print(self) -> None:
        """Waits for the job, then writes the rows to standard output, as a table in the style of Flink's SQL client;
        only ``OK`` where there is nothing else to tell."""
        self.wait()
        if self.statement != "SELECT":
            print(self.to_text())

    def to_text(self) -> str:
        """The rows as :meth:`print` writes them."""
        if self.kind is ResultKind.SUCCESS:
            return "OK"
        texts = [value for row in self.rows for value in row if isinstance(value, str) and "\n" in value]
        if texts:
            return "\n".join(texts)
        return render(self.columns, self.rows).rstrip("\n")


OK: tuple[object, ...] = ("OK",)


def ok(statement: str, notes: Sequence[str] = ()) -> TableResult:
    """The result of a statement that gives no rows."""
    return TableResult(("result",), (STRING,), [OK], ResultKind.SUCCESS, None, tuple(notes), statement)


def content(
    statement: str, columns: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()
) -> TableResult:
    """A result of rows; a column's type is that of its first value that is not None."""
    types = tuple(_type_of([row[i] for row in rows]) for i in range(len(columns)))
    found = [tuple(row) for row in rows]
    return TableResult(tuple(columns), types, found, ResultKind.SUCCESS_WITH_CONTENT, None, tuple(notes), statement)


def _type_of(values: Sequence[object]) -> LogicalType:
    first = next((v for v in values if v is not None), None)
    return BOOLEAN if isinstance(first, bool) else BIGINT if isinstance(first, int) else STRING
