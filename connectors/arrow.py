"""Rows of the process that made the session, such as a pandas DataFrame, as a bounded table that no user can name.

The rows lie in an Arrow IPC file in the scratch folder of that process, which the workers of its machine map into
memory. The columns of the file are ``c0, c1, ...`` with the types of :meth:`LogicalType.polars`, or what stands for
these in Arrow (:func:`stored_dtype`).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateplan.common.changelog import column
from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, Role
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import countable
from stateplan.connectors.protocol import Connector, Lookup, RangeSource, Source, SourceTable
from stateplan.connectors.splits import RangeSplit

if TYPE_CHECKING:
    import polars as pl

_BATCH = 1 << 16
"""Rows in a batch of the file: a worker that reads a few of them reads no more than this."""

_own_files: set[str] = set()
"""The files of this process."""

_FRAME = 250_000
"""Rows that a worker has in hand at a time."""


class ArrowTable(Connector):
    """Rows of this process."""

    name = "in-memory"
    options = (
        Option("path", OptionType.STRING, "Of the file.", role=Role.SOURCE, is_required=True),
        Option("rows", OptionType.LONG, "In it.", role=Role.SOURCE, is_required=True),
        Option("digest", OptionType.STRING, "Of its content.", role=Role.SOURCE, is_required=True),
    )
    roles = (Role.SOURCE,)
    can_look_up = True
    abilities = frozenset({"ProjectPushDown", "ReadingMetadata"})

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        return {key: options[key] for key in ("connector", "rows", "digest") if key in options}

    def source(self, table: SourceTable) -> Source[Any]:
        return self._rows(table)

    def lookup(self, table: SourceTable) -> Lookup:
        return _LookedUp(self._rows(table))

    @staticmethod
    def _rows(table: SourceTable) -> _Rows:
        """Raises RunError RUN154 for a file that is not of this process: a plan may name any."""
        path = table.options["path"]
        if path not in _own_files:
            raise RunError("RUN154", name=table.name, path=path)
        types = tuple(table.fields[i][1] for i in table.projection)
        return _Rows(path, table.projection, types, int(table.options["rows"]))


@dataclass(frozen=True)
class _Rows(RangeSource):
    """The rows of a file, by their number."""

    path: str
    projection: tuple[int, ...]
    types: tuple[LogicalType, ...]
    total: int
    any_clock = True

    def check(self, name: str) -> None:
        if not Path(self.path).exists():
            raise RunError("RUN154", name=name, path=self.path)

    def size(self) -> int:
        """Bytes of the file."""
        return Path(self.path).stat().st_size

    def read(self, split: RangeSplit) -> Iterator[pl.DataFrame]:
        yield from self._slice(split.start, split.stop)

    def _slice(self, start: int, stop: int) -> Iterator[pl.DataFrame]:
        import polars as pl

        for at in range(start, stop, _FRAME):
            height = min(_FRAME, stop - at)
            yield self._lazy_slice(at, height).collect() if self.projection else countable(pl.DataFrame(height=height))

    def _lazy_slice(self, start: int, height: int) -> pl.LazyFrame:
        import polars as pl

        read = [
            pl.col(column(index)).cast(t.polars()).alias(column(i))
            for i, (index, t) in enumerate(zip(self.projection, self.types, strict=True))
        ]
        return pl.scan_ipc(self.path, glob=False).slice(start, height).select(read)

    def all_rows(self) -> pl.DataFrame:
        """All rows."""
        return self._lazy_slice(0, self.total).collect()


@dataclass(frozen=True)
class _LookedUp(Lookup):
    """The rows, which do not change."""

    table: _Rows
    is_final = True

    def size(self) -> int:
        """Bytes of the file."""
        return self.table.size()

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        return self.table.all_rows()


def is_in_memory(options: Mapping[str, str] | None) -> bool:
    """Whether the rows of a table are in this process alone."""
    return options is not None and options.get("connector") == ArrowTable.name


def keep_column(folder: Path, frames: Iterable[pl.DataFrame], empty: pl.DataFrame) -> dict[str, str]:
    """Writes rows to a file, and returns the options of their table.

    Args:
        folder: for the file, which is called after its content.
        frames: the rows, of exactly the columns of ``empty``.
        empty: no rows.

    Raises OSError.
    """
    import polars as pl
    import pyarrow as pa

    from stateplan.common.values.nanoseconds import portable_frame

    newest = pl.CompatLevel.newest()
    schema = portable_frame(empty).to_arrow(compat_level=newest).schema
    rows, digest = 0, hashlib.blake2b(digest_size=16)
    handle, name = tempfile.mkstemp(dir=folder)
    os.close(handle)
    try:
        with pa.OSFile(name, "wb") as out, pa.ipc.new_file(out, schema) as writer:
            for frame in frames:
                rows += frame.height
                writer.write_table(portable_frame(frame).to_arrow(compat_level=newest), max_chunksize=_BATCH)
        with open(name, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        path = folder / f"{digest.hexdigest()}.arrow"
        os.replace(name, path)
        _own_files.add(str(path))
    except BaseException:
        os.unlink(name)
        raise
    return {"connector": ArrowTable.name, "path": str(path), "rows": str(rows), "digest": digest.hexdigest()}
