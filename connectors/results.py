"""The rows of a query on their way from the job to whoever reads them.

A query is a job like any other. Its sink is a table of the connector :class:`Results`, which no user can name: workers
hand the rows to the driver, and the driver puts them into a :class:`ResultChannel`. Source of the idea: Flink's
``CollectDynamicSink``.
"""

from __future__ import annotations

import io
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, Role
from stateplan.connectors.protocol import Connector, Sink, SinkTable

if TYPE_CHECKING:
    import polars as pl

BUFFERED_ROWS = 100_000
"""A job waits with its next micro-batch while this number of rows of its query have not been read."""
BUFFERED_BYTES = 32 << 20
"""So does it while they have this number of bytes in memory."""


class ResultChannel:
    """Frames of changes between a job, which puts them in, and one reader.

    Args:
        buffer_rows: rows that wait for the reader before the job has to.

    Attributes:
        id: names it for the sink.
    """

    def __init__(self, buffer_rows: int = BUFFERED_ROWS) -> None:
        self.id = secrets.token_hex(16)  # whoever knew it could write rows
        self._buffered = buffer_rows
        self._frames: deque[pl.DataFrame] = deque()
        self._rows = self._bytes = 0
        self._condition = threading.Condition()
        self._has_ended = False
        self._error: StateplanError | None = None
        self._unbounded = self._discarded = False
        self._listeners: list[Callable[[], None]] = []
        _open[self.id] = self

    def listen(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls ``call`` from any thread when rows arrive or the result ends. ``call`` must neither wait nor raise.
        Returns what ends that."""
        with self._condition:
            self._listeners.append(call)
        return lambda: self._forget(call)

    def _forget(self, call: Callable[[], None]) -> None:
        with self._condition:
            if call in self._listeners:
                self._listeners.remove(call)

    def _tell(self) -> None:
        self._condition.notify_all()
        for call in self._listeners:
            call()

    @property
    def _has_room(self) -> bool:
        return self._rows < self._buffered and self._bytes < BUFFERED_BYTES

    @property
    def waiting_bytes(self) -> int:
        """Of the rows that wait for the reader, in memory."""
        return self._bytes

    def put(self, frame: pl.DataFrame) -> None:
        """Hands rows over; waits while the reader has enough of them."""
        with self._condition:
            self._condition.wait_for(lambda: self._has_room or self._unbounded)
            if not self._discarded and frame.height:
                self._frames.append(frame)
                self._rows += frame.height
                self._bytes += int(frame.estimated_size())
                self._tell()

    def end(self, error: StateplanError | None = None) -> None:
        """No more rows come, because of ``error`` if there is one."""
        with self._condition:
            self._has_ended, self._error = True, error
            self._tell()

    def release(self) -> None:
        """The job is about to be stopped: it must not wait for the reader any more."""
        with self._condition:
            self._unbounded = True
            self._condition.notify_all()

    def discard(self) -> None:
        """Nobody reads any more."""
        with self._condition:
            self._discarded = self._unbounded = True
            self._frames.clear()
            self._rows = self._bytes = 0
            self._tell()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for rows, or for their end, at most ``timeout`` seconds; whether there is either.

        Raises:
            StateplanError: what the job failed of, without a row.
        """
        with self._condition:
            is_ready = self._condition.wait_for(lambda: self._frames or self._has_ended or self._discarded, timeout)
            if self._error is not None and not self._frames and not self._discarded:
                raise self._error
            return bool(is_ready)

    @property
    def has_rows(self) -> bool:
        """Whether there are rows to take."""
        with self._condition:
            return bool(self._frames)

    @property
    def is_ready(self) -> bool:
        """Whether there are rows to take, or there will be none."""
        with self._condition:
            return bool(self._frames) or self._has_ended or self._discarded

    @property
    def is_exhausted(self) -> bool:
        """Whether everything has been taken, and no more rows come."""
        with self._condition:
            return self._discarded or (self._has_ended and not self._frames and self._error is None)

    def take(
        self, timeout: float | None = None, limit: int | None = None, size: int | None = None
    ) -> pl.DataFrame | None:
        """The next rows: ``c0, c1, ...``, and ``kind`` where they are not all insertions.

        Args:
            timeout: seconds to wait for them; None for as long as it takes.
            limit: at most this number of; the others are next.
            size: rows of about this number of bytes in memory, but at least one.

        Returns:
            None if there were none in time, or when there are no more: see :attr:`ended`.

        Raises:
            StateplanError: what the job failed of, once all its rows have been taken.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while not (self._frames or self._has_ended or self._discarded):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._condition.wait(left)
            if not self._frames:
                if self._error is not None and not self._discarded:
                    raise self._error
                return None
            frame = self._frames.popleft()
            bytes_ = int(frame.estimated_size())
            if size is not None and bytes_ > size:
                fitting = max(1, size * frame.height // bytes_)
                limit = fitting if limit is None else min(limit, fitting)
            if limit is not None and frame.height > limit:
                self._frames.appendleft(frame[limit:])
                bytes_ -= int(self._frames[0].estimated_size())
                frame = frame[:limit]
            self._rows -= frame.height
            self._bytes -= bytes_
            self._condition.notify_all()
            return frame


_open: weakref.WeakValueDictionary[str, ResultChannel] = weakref.WeakValueDictionary()


class Results(Connector):
    """The rows of a query, for the reader of this process."""

    name = "*results*"
    options = (Option("channel", OptionType.STRING, "Of the reader.", role=Role.SINK, is_required=True),)
    roles = (Role.SINK,)

    def sink(self, table: SinkTable) -> Sink:
        return _Collect(table.options["channel"])


@dataclass(frozen=True)
class _Collect(Sink):
    """Workers send the rows as Arrow streams, in their order."""

    channel: str
    keeps_order = True
    is_transient = True

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        import polars as pl

        out = io.BytesIO()
        frame.write_ipc_stream(out, compat_level=pl.CompatLevel.newest())
        return out.getvalue()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        import polars as pl

        reader = _open.get(self.channel)
        if reader is not None:
            for part in parts:
                reader.put(pl.read_ipc_stream(io.BytesIO(part)))

    def release(self) -> None:
        reader = _open.get(self.channel)
        if reader is not None:
            reader.release()
