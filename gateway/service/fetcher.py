"""The result of a statement, page by page. Source: Flink's ``ResultFetcher``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import GatewayError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import hex_id
from stateplan.gateway.protocol import PageKind, ResultColumn
from stateplan.session.results import ResultKind, TableResult

if TYPE_CHECKING:
    import polars as pl


PAGE_BYTES = 8 << 20
"""A page has rows of about this number of bytes in memory at most, or one."""


@dataclass(frozen=True)
class Rows:
    """The rows of a page: of a query a frame of changes, of other statements tuples.

    Attributes:
        types: see :attr:`ResultColumn.type`.
        zone: the time zone of the session, for points in time.
        frame: ``c0, c1, ...``, and ``kind`` where there are not only insertions; None for tuples.
        values: the tuples.
    """

    columns: tuple[ResultColumn, ...]
    zone: str = "UTC"
    frame: pl.DataFrame | None = field(default=None, repr=False)
    values: Sequence[tuple[object, ...]] = ()

    def kinds(self) -> list[RowKind]:
        """The kind of change of each row."""
        if self.frame is None:
            return [RowKind.INSERT] * len(self.values)
        if KIND not in self.frame.columns:
            return [RowKind.INSERT] * self.frame.height
        return [RowKind(kind) for kind in self.frame[KIND].to_list()]

    def texts(self) -> list[list[str | None]]:
        """The values as Flink prints them; None for NULL."""
        if self.frame is None:
            return [[None if v is None else _text(v) for v in row] for row in self.values]
        from stateplan.session.tableau import texts

        return texts(self.frame, [column.type for column in self.columns], self.zone)


def _text(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Page:
    """A page; ``next_token`` is None after the last one."""

    kind: PageKind
    rows: Rows
    next_token: int | None


class ResultFetcher:
    """Hands a result out once, page by page. The last page may be requested again.

    Args:
        result: the result of the statement.

    Attributes:
        columns: the columns of the rows.
        is_query: whether the statement is a query.
        insert_only: whether it is one whose rows are all insertions.
        has_content: whether the rows are more than ``OK``.
        job_id: the id of the job that it started.
        notes: sentences for the user, of the statement.
    """

    def __init__(self, result: TableResult) -> None:
        self._result = result
        self._channel = result.channel
        self._lock = threading.Lock()
        self._token = 0
        self._last: Page | None = None
        self._is_read = False
        self.is_query = result.channel is not None
        self.insert_only = self.is_query and result.insert_only
        self.has_content = result.kind is ResultKind.SUCCESS_WITH_CONTENT
        self.job_id = None if result.job is None else hex_id(result.job.job_id)
        self.notes = result.notes
        if result.job is not None and not self.is_query:
            from stateplan.common.types import STRING

            self.columns: tuple[ResultColumn, ...] = (ResultColumn("job id", STRING),)
            self._left: list[tuple[object, ...]] = [(self.job_id,)]
        else:
            self.columns = tuple(map(ResultColumn, result.columns, result.types))
            self._left = list(result.rows)

    def notes_for(self, page: Page) -> tuple[str, ...]:
        """Sentences of the job for a user elsewhere, with the last page, and how the plans of a job with a shadow
        differ. Flink's gateway has nothing like it, and its clients do not look at it."""
        if page.kind is not PageKind.EOS:
            return ()
        return (*(self.notes if self._result.statement == "DESCRIBE JOB" else ()), *self._result.job_notes)

    @property
    def is_read(self) -> bool:
        """Whether all has been fetched, and the end."""
        return self._is_read

    def is_ready(self, token: int) -> bool:
        """Whether a fetch has rows, an end or an error to give, and not an empty page."""
        if token != self._token or self._is_read or self._channel is None:
            return True
        return self._channel.is_ready

    def listen(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls ``call`` in another thread whenever :meth:`is_ready` may have changed. Returns a function that ends
        this."""
        return (lambda: None) if self._channel is None else self._channel.listen(call)

    @property
    def waiting_bytes(self) -> int:
        """About how many bytes of rows wait here to be fetched, or to be fetched again."""
        last = self._last
        last_page_bytes = 0 if last is None or last.rows.frame is None else int(last.rows.frame.estimated_size())
        return last_page_bytes + (0 if self._channel is None else self._channel.waiting_bytes)

    def forget_read(self) -> None:
        """Drops the last page of a result that has been fetched completely."""
        with self._lock:
            if self._is_read:
                self._last = None

    def size(self, token: int, limit: int) -> int:
        """About how many bytes the page of ``token``, with at most ``limit`` rows, has in memory."""
        last = self._last
        if token == self._token - 1 and last is not None and last.rows.frame is not None:
            return int(last.rows.frame.estimated_size())
        return 0 if self._channel is None or token != self._token else min(PAGE_BYTES, self._channel.waiting_bytes)

    def fetch(self, token: int, limit: int) -> Page:
        """The page of ``token``, with at most ``limit`` rows; it does not wait.

        Raises:
            GatewayError: GW003, for a token that is neither the next one nor the last.
            StateplanError: what made the job of a query fail, after its last row.
        """
        with self._lock:
            if self._last is not None and token == self._token - 1:
                return self._last
            if token != self._token:
                tokens = f"{self._token} or {self._token - 1}" if self._last is not None else str(self._token)
                raise GatewayError("GW003", known=tokens, token=token)
            rows = None if self._is_read else self._next(limit)
            if rows is None:
                self._is_read = True
                return Page(PageKind.EOS, Rows(self.columns), None)
            self._token += 1
            self._last = Page(PageKind.PAYLOAD, rows, self._token)
            return self._last

    def _next(self, limit: int) -> Rows | None:
        """The next rows, perhaps none; None at the end."""
        if self._channel is None:
            if not self._left:
                return None
            rows, self._left = self._left[:limit], self._left[limit:]
            return Rows(self.columns, self._result.zone, None, rows)
        import polars as pl

        frames: list[pl.DataFrame] = []
        count = 0
        size = PAGE_BYTES
        while count < limit and size > 0 and (not frames or self._channel.has_rows):
            frame = self._channel.take(0, limit - count, size)
            if frame is None:
                break
            frames.append(frame)
            count += frame.height
            size -= int(frame.estimated_size())
        if frames:
            all_rows = frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")
            return Rows(self.columns, self._result.zone, all_rows)
        return None if self._channel.is_exhausted else Rows(self.columns, self._result.zone)

    def close(self) -> None:
        """Drops the result; the job of a query ends."""
        self._result.close()
