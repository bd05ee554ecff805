"""Reads the rows of a state table from the files of a checkpoint, in this process or in a worker, without Spark's state
reader: whole columns, one key group after the other.

Which versions of rows count, and which have expired, the code of the runtime decides, as for ``state read``. Where the
values of all lookup columns are known, only rows with their hash are looked at.

Codes: CKPT045, and CKPT010 to CKPT013 of :mod:`runtime.state.keyed_state` for state that is damaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.common.roots import current_roots, hold
from stateplan.common.ttl import NEVER
from stateplan.connectors.formats.base import countable
from stateplan.runtime.hashing import hash_rows, key_groups, partition_of, slot_label
from stateplan.runtime.inspect.newest_rows import newest_rows
from stateplan.runtime.inspect.state_figures import UNDATED
from stateplan.runtime.inspect.stored_state import SlotStates, StoredOperator
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.state_store import StorePartition, StoreVersion, store_versions
from stateplan.runtime.spark.store_snapshot import StoreFileError
from stateplan.runtime.state.keyed_state import MemoryRunStore
from stateplan.runtime.state.runs import RunInfo
from stateplan.runtime.state.ttl_access import expiry_clock

ACCESSED, EXPIRES, GROUP, KIND = "@access_time", "@expires_at", "@key_group", "@rowkind"
"""Columns beside those of a table, as :attr:`StateScan.output` names them."""

_OWN = (ACCESSED, EXPIRES, GROUP, KIND)
_END_OF_DATES = 253_402_300_799_999
_FRAME = 250_000
"""Rows of a frame at most."""
_OLD = "@old."
_WIDTH = 8
_WIDTHS: dict[Any, int] = {
    **dict.fromkeys((pl.Boolean, pl.Int8), 1),
    pl.Int16: 2,
    **dict.fromkeys((pl.Int32, pl.Float32, pl.Date), 4),
    **dict.fromkeys((pl.Int64, pl.UInt64, pl.Float64, pl.Datetime, pl.Time, pl.Duration), _WIDTH),
}
"""Bytes of a value of a column of fixed width."""
_OWN_WIDTH = 17
"""Bytes of the hash, the time and the tombstone of a stored row."""


@dataclass(frozen=True)
class Instant:
    """A micro-batch whose state is read.

    Attributes:
        batch: its number.
        now: the instant that ages are counted from, ms since 1970.
    """

    batch: int
    now: int


@dataclass(frozen=True)
class Slots:
    """Key groups of one operator whose state is in the same files.

    Attributes:
        stores: per instant, the number of Spark's partition, and which attempt wrote it.
        groups: the key groups.
        bytes: about so many are to be read.
    """

    stores: tuple[tuple[int, str], ...]
    groups: tuple[int, ...]
    bytes: int = 0


class Partitions:
    """The partitions of state that a process has opened.

    Args:
        reads_ahead: whether a second thread reads a key group while the rows of another one are in use.
    """

    def __init__(self, reads_ahead: bool = False) -> None:
        self.reads_ahead = reads_ahead
        self._partitions: dict[StoreVersion, StorePartition] = {}

    def of(self, version: StoreVersion) -> StorePartition:
        """A version of a partition."""
        return self._partitions.setdefault(version, StorePartition(version))

    def clear(self) -> None:
        """Forgets all of them."""
        self._partitions.clear()


@dataclass(frozen=True)
class StateScan:
    """What is read of the state tables of an operator. Picklable.

    Attributes:
        folder: the checkpoint.
        number: Spark's number of the operator that holds the state.
        first: the first slot of the operator.
        key_groups: into which its state is split.
        operator: the operator.
        place: the number of the table.
        output: the columns to return: those of the table, and of :data:`ACCESSED`, :data:`EXPIRES`, :data:`GROUP` and
            :data:`KIND`; each with its type.
        with_expired: whether rows that have expired are wanted too.
        routing: the columns whose values decide the key group of a row; None if that is not known.
        keys: per column, the values of which a row has one; columns with any value are not among them.
        limit: how many rows are enough; None for all.
        groups: the key groups that are wanted; None for all.
    """

    folder: AnyPath
    number: int
    first: int
    key_groups: int
    operator: StoredOperator
    place: int
    output: tuple[tuple[str, pl.DataType], ...]
    with_expired: bool = False
    routing: tuple[str, ...] | None = None
    keys: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    limit: int | None = None
    groups: frozenset[int] | None = None

    @property
    def table(self) -> StateTable:
        return self.operator.tables[self.place]

    # ---- which key groups --------------------------------------------------------------------------------------

    @property
    def selected_groups(self) -> frozenset[int]:
        """The key groups that are wanted, and can have rows with the keys."""
        groups = frozenset(range(self.key_groups))
        if self.groups is not None:
            groups &= self.groups
        combinations = None if self.routing is None else self._combinations(self.routing)
        if combinations is None:
            return groups
        return groups & frozenset(key_groups(hash_rows(combinations, self.routing or ()), self.key_groups).tolist())

    def _combinations(self, columns: Sequence[str]) -> pl.DataFrame | None:
        """All values of some columns that rows can have; None if one of them may have any."""
        if not columns or any(name not in self.keys for name in columns):
            return None
        frame = pl.DataFrame({"@": [0]})
        for name in columns:
            series = pl.Series(name, list(self.keys[name]), dtype=self.table.schema[name])
            frame = frame.join(series.to_frame(), how="cross")
        return frame.drop("@")

    def plan(self, instants: Sequence[Instant], cache: Partitions) -> list[Slots]:
        """The key groups with rows of the table that can have the keys, by the files that hold them.

        Args:
            instants: as for :meth:`frames`.
            cache: the partitions of this process.

        Raises:
            CheckpointError: CKPT045.
        """
        by_stores: dict[tuple[tuple[int, str], ...], list[int]] = {}
        with self._coded_errors(instants[-1]):
            spark = SparkCheckpoint.of(self.folder)
            versions = [store_versions(spark, self.number, instant.batch) for instant in instants]
            for group in sorted(self.selected_groups):
                label = slot_label(self.first + group)
                places = [partition_of(label, len(v)) for v in versions]
                stores = tuple((place, v[place].writer) for place, v in zip(places, versions, strict=True))
                by_stores.setdefault(stores, []).append(group)
            slots = [
                self._slots(stores, self._open(stores, instants, cache), some)
                for stores, some in sorted(by_stores.items())
            ]
        return [some for some in slots if some.groups]

    def _slots(
        self, stores: tuple[tuple[int, str], ...], partitions: Sequence[StorePartition], groups: Iterable[int]
    ) -> Slots:
        groups_with_rows, size = [], 0
        for group in groups:
            label = slot_label(self.first + group)
            parts = [part for p in partitions if label in p.manifests for part in self._parts(p.manifests[label])]
            if parts:
                groups_with_rows.append(group)
                size += sum(part.rows * self._row_width(part) for part in parts)
        return Slots(stores, tuple(groups_with_rows), size)

    def _parts(self, manifest: str) -> list[RunInfo]:
        """The parts of runs of the table, of a list of runs; one of no rows for a list that cannot be read."""
        try:
            return [RunInfo(*entry) for entry in json.loads(manifest)["tables"].get(self.table.name, ())]
        except (ValueError, KeyError, TypeError, AttributeError):
            return [RunInfo("", *([0] * 13))]  # reading it says what is wrong

    def _row_width(self, part: RunInfo) -> int:
        """Bytes of a row of a part in the columns that are returned, about. What is left of a stored row beside columns
        of fixed width belongs to the others, in equal shares."""
        schema = self.table.schema
        others = [name for name, dtype in schema.items() if dtype not in _WIDTHS]
        rest = part.width - sum(_WIDTHS[dtype] for dtype in schema.values() if dtype in _WIDTHS) - _OWN_WIDTH
        share = max(1, rest // max(1, len(others)))
        return sum(share if name in others else _WIDTHS.get(dtype, _WIDTH) for name, dtype in self.output)

    def _open(
        self, stores: Iterable[tuple[int, str]], instants: Sequence[Instant], cache: Partitions
    ) -> list[StorePartition]:
        folder = SparkCheckpoint.of(self.folder).state / str(self.number)
        versions = zip(stores, instants, strict=True)
        return [cache.of(StoreVersion(folder / str(n), at.batch + 1, writer)) for (n, writer), at in versions]

    @contextmanager
    def _coded_errors(self, instant: Instant) -> Iterator[None]:
        try:
            yield
        except (StoreFileError, OSError) as cause:
            text = str(cause)[:300]
            raise CheckpointError("CKPT045", folder=self.folder, batch=instant.batch, cause=text) from cause

    # ---- their rows --------------------------------------------------------------------------------------------

    def frames(self, slots: Iterable[Slots], instants: Sequence[Instant], cache: Partitions) -> Iterator[pl.DataFrame]:
        """The rows of some key groups.

        Args:
            slots: the key groups.
            instants: the micro-batch after which they are read; with two, the changes between them are.
            cache: the partitions of this process.

        Returns:
            Frames with the columns ``c0, c1, ...`` as :attr:`output` lists them.

        Raises:
            CheckpointError: CKPT010 to CKPT013, state is damaged; CKPT045.
        """
        remaining = self.limit
        with self._coded_errors(instants[-1]):
            for group, rows in self._groups(slots, instants, cache):
                some_rows = rows if remaining is None else rows.head(remaining)
                for start in range(0, some_rows.height, _FRAME):
                    yield self._shaped(some_rows[start : start + _FRAME], group)
                if remaining is not None:
                    remaining -= some_rows.height
                    if remaining == 0:
                        return

    def _groups(
        self, slots: Iterable[Slots], instants: Sequence[Instant], cache: Partitions
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """The rows of each key group. While the rows of one are in use, those of the next one are read."""

        def read(stores: tuple[tuple[int, str], ...], group: int) -> pl.DataFrame:
            return self._rows(group, self._open(stores, instants, cache), instants)

        groups = [(some.stores, group) for some in slots for group in some.groups]
        if not cache.reads_ahead or self.limit is not None:
            yield from ((group, read(stores, group)) for stores, group in groups)
            return
        roots = current_roots()

        def read_elsewhere(stores: tuple[tuple[int, str], ...], group: int) -> pl.DataFrame:
            hold(roots)
            return read(stores, group)

        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(read_elsewhere, *groups[0]) if groups else None
            for number, (_, group) in enumerate(groups):
                assert pending is not None
                rows = pending.result()
                pending = pool.submit(read_elsewhere, *groups[number + 1]) if number + 1 < len(groups) else None
                yield group, rows

    def _rows(self, group: int, partitions: Sequence[StorePartition], instants: Sequence[Instant]) -> pl.DataFrame:
        if len(instants) == 1:
            return self._state_rows(group, partitions[0], instants[0])
        before, after = (self._state_rows(group, p, at) for p, at in zip(partitions, instants, strict=True))
        return _changes(self.table, before, after)

    def _state_rows(self, group: int, partition: StorePartition, instant: Instant) -> pl.DataFrame:
        """The rows of the table in a key group, with the columns that are needed."""
        columns = self._columns
        label = slot_label(self.first + group)
        text = partition.manifests.get(label)
        if text is None:
            return pl.DataFrame(schema=self._schema(columns))
        store = MemoryRunStore()
        store.values.update(partition.runs(label, self._ids(text)))
        slots = SlotStates((self.operator,), {label: (0, group)}, {label: text}, instant.now)
        _, _, state = slots.state(label, store)
        cut = None
        if not self.with_expired:
            config = self.operator.configs[self.place]
            clock, ttl = expiry_clock(config, instant.now, state.time.watermark)
            cut = None if ttl == NEVER else clock - ttl
        combinations = self._combinations(self.table.lookup)
        if combinations is not None:
            rows = state.lookup(self.table, combinations, 0, NEVER)
            rows = rows if cut is None else rows.filter(pl.col(ACCESS_TIME) > cut)
            return rows.select(columns)
        runs = [frame for _, frame in state.runs(self.table)]
        return newest_rows(self.table, runs, columns, cut) if runs else pl.DataFrame(schema=self._schema(columns))

    def _ids(self, manifest: str) -> frozenset[str]:
        """The stored values of the table's runs."""
        return frozenset(f"{part.id}/{n}" for part in self._parts(manifest) for n in range(part.chunks))

    @property
    def _columns(self) -> list[str]:
        """The columns of a run that are needed, at least one; of changes all, to compare them."""
        names = {name for name, _ in self.output}
        own = [*self.table.schema] if KIND in names else [name for name, _ in self.output if name not in _OWN]
        return list(dict.fromkeys([*own, *([ACCESS_TIME] if not own or names & {ACCESSED, EXPIRES} else [])]))

    def _schema(self, columns: Iterable[str]) -> dict[str, pl.DataType]:
        types = {**self.table.schema, ACCESS_TIME: pl.Int64()}
        return {name: types[name] for name in columns}

    def _shaped(self, rows: pl.DataFrame, group: int) -> pl.DataFrame:
        """The columns to return. What is the same in all rows is added first: a selection of constants has one row."""
        if not self.output:
            return countable(pl.DataFrame(height=rows.height))
        ttl = self.operator.configs[self.place].ttl
        names = {name for name, _ in self.output}
        if GROUP in names:
            rows = rows.with_columns(pl.Series(GROUP, [group], pl.Int32).new_from_index(0, rows.height))
        values = []
        for number, (name, dtype) in enumerate(self.output):
            value = _instant(name, ttl) if name in (ACCESSED, EXPIRES) else pl.col(name)
            values.append(value.cast(dtype).alias(column(number)))
        return rows.select(values)


def _instant(name: str, ttl: int) -> pl.Expr:
    """When a row was last accessed, or when it expires; NULL for never."""
    time = pl.when(pl.col(ACCESS_TIME) < UNDATED).then(pl.col(ACCESS_TIME))
    if name == EXPIRES:
        lasts = ttl == NEVER or ttl >= _END_OF_DATES
        end = time + (0 if lasts else ttl)
        time = pl.when(pl.lit(not lasts) & end.is_between(0, _END_OF_DATES)).then(end)
    return time.cast(pl.Datetime("ms")).dt.replace_time_zone("UTC")


def _changes(table: StateTable, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """What two versions of a key group differ in, as rows with their kind: those insertions, the old and the new row of
    those updated, and those deletions. Only the time of access is no difference."""
    key = list(table.identity) or ["@all"]
    if not table.identity:
        before, after = (f.with_columns(pl.lit(0).alias("@all")) for f in (before, after))
    values = [name for name in table.schema if name not in key]
    insertions = after.join(before, on=key, how="anti", nulls_equal=True)
    deletions = before.join(after, on=key, how="anti", nulls_equal=True)
    old_rows = before.rename({name: f"{_OLD}{name}" for name in before.columns if name not in key})
    both = after.join(old_rows, on=key, how="inner", nulls_equal=True, maintain_order="left")
    is_other = pl.any_horizontal(map(_differs, values)) if values else pl.lit(False)
    both = both.filter(is_other)
    old = both.select(*key, *(pl.col(f"{_OLD}{name}").alias(name) for name in before.columns if name not in key))
    insertions, deletions, old, new = (
        frame.select(after.columns).with_columns(pl.lit(kind).alias(KIND))
        for frame, kind in ((insertions, "+I"), (deletions, "-D"), (old, "-U"), (both, "+U"))
    )
    updated = pl.concat([old.with_row_index("@n"), new.with_row_index("@n")]).sort("@n", maintain_order=True)
    return pl.concat([deletions, updated.drop("@n"), insertions])


def _differs(name: str) -> pl.Expr:
    """Whether a value is not the old one; NULL equals NULL, and NaN equals NaN."""
    return pl.col(name).ne_missing(pl.col(f"{_OLD}{name}"))
