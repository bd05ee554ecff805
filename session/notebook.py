"""Tables and results in a notebook: as HTML, and, while a job runs, as a table that changes.

IPython is imported only where it runs already.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.common.types import LogicalType
from stateplan.session.describe import type_text
from stateplan.session.tableau import texts

if TYPE_CHECKING:
    import polars as pl

    from stateplan.session.materialized import Materialized

SHOWN_ROWS = 20
"""How many rows are shown. These are the last ones."""

_MAX_ROWS = 1000
"""Of a query without an end that only inserts, this number of rows stay in memory while it is shown."""

_EVERY = 0.5
"""Seconds between two updates."""


@dataclass(frozen=True)
class ResultView:
    """What is shown of a result.

    Attributes:
        columns: name and type of each, as text.
        rows: the last ones, as text; None for NULL.
        count: the number of all rows.
        status: the status of the job; None if there is none.
        error: what it failed of.
        notes: its messages for the user.
    """

    columns: tuple[tuple[str, str], ...]
    rows: Sequence[Sequence[str | None]]
    count: int
    status: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, names: Sequence[str], types: Sequence[LogicalType], zone: str, rows: pl.DataFrame | None, count: int
    ) -> ResultView:
        """The view of rows ``c0, c1, ...``; of none where they are not to be taken."""
        columns = tuple((name, type_text(kind)) for name, kind in zip(names, types, strict=True))
        return cls(columns, [] if rows is None else texts(rows.tail(SHOWN_ROWS), types, zone), count)

    def html(self) -> str:
        """As HTML."""
        heads = (f"{escape(name)}<br><small>{escape(kind)}</small>" for name, kind in self.columns)
        below = [amount(self.count, "row")]
        if self.count > len(self.rows) > 0:
            below[0] = f"the last {len(self.rows)} of {below[0]}"
        if self.status is not None:
            below.append(f"job {self.status}")
        below += map(escape, self.notes)
        error_text = "" if self.error is None else f"<pre>{escape(self.error)}</pre>"
        return f"{_table(heads, self.rows)}<p>{'; '.join(below)}</p>{error_text}"


class ShownResult(Protocol):
    """A result to show; :class:`session.results.TableResult` is one."""

    def view(self) -> ResultView: ...

    def rows_to_come(self) -> Materialized | None:
        """The rows of a query that a notebook may take."""

    @property
    def is_endless(self) -> bool:
        """Whether it only inserts, and does not end by itself."""


def html_table(columns: Iterable[str], rows: Iterable[Sequence[str | None]], below: str) -> str:
    """A table with a text below it, as HTML."""
    return f"{_table(map(escape, columns), rows)}<pre>{escape(below)}</pre>"


def _table(heads: Iterable[str], rows: Iterable[Sequence[str | None]]) -> str:
    head = "".join(f'<th style="text-align: left">{text}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str | None) -> str:
    return f'<td style="text-align: left">{"<i>NULL</i>" if text is None else escape(text)}</td>'


def show(result: ShownResult) -> None:
    """Shows a result where IPython runs: in a notebook as a table, which a thread keeps up to date while the job of a
    query runs; in a terminal as text."""
    from IPython import get_ipython
    from IPython.display import display

    if not hasattr(get_ipython(), "kernel"):
        display({"text/plain": repr(result)}, raw=True)
        return
    table = result.rows_to_come()
    handle = display(_bundle(result), raw=True, display_id=True)
    if table is not None and not table.is_exhausted:
        # The kernel finds the cell of an output in the context of its thread.
        run = contextvars.copy_context().run
        arguments = (_follow, result, table, handle)
        threading.Thread(target=run, args=arguments, name="stateplan-notebook", daemon=True).start()


def _bundle(result: ShownResult) -> dict[str, str]:
    return {"text/plain": repr(result), "text/html": result.view().html()}


def _follow(result: ShownResult, table: Materialized, handle: Any) -> None:
    """Takes the rows of a query, and updates what is shown of it, until it ends."""
    last_update, last_changes = time.monotonic(), 0
    with contextlib.suppress(Exception):  # the kernel is going away; what the job fails of is in the view
        while not table.is_exhausted:
            try:
                table.pull(_EVERY)
            except StateplanError:
                break
            if result.is_endless:
                table.keep_last(_MAX_ROWS)
            if table.changes != last_changes and time.monotonic() - last_update >= _EVERY:
                last_changes = table.changes
                handle.update(_bundle(result), raw=True)
                last_update = time.monotonic()
        while result.view().status == "RUNNING":  # its last rows are taken before its end is recorded
            time.sleep(_EVERY)
        handle.update(_bundle(result), raw=True)
