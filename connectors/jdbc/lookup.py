"""Looking up rows of a table of PostgreSQL by keys: some thousand keys in a query, several queries at once.

Source of the options: Flink's ``JdbcRowDataLookupFunction`` and ``LookupOptions``.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import field, replace
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.caches import (
    FullCache,
    PartialCache,
    PartialLimits,
    Periodic,
    Timed,
    positions,
    time_of_day,
)
from stateplan.connectors.jdbc.columns import (
    Column,
    TableInfo,
    column_of,
    find_table,
    frame_of,
    guards_sql,
    is_plain,
    select_sql,
    value_sql,
)
from stateplan.connectors.jdbc.postgres import Server, close, persistent, quote_name, receiving
from stateplan.connectors.protocol import Lookup, SourceTable
from stateplan.connectors.retries import KeyRetries

T = TypeVar("T")

_KEYS = 10_000
"""Keys in a query."""

_CONNECTIONS = 4
"""Connections of a worker to a table, and so queries at once."""

_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@dataclass(frozen=True)
class Caching:
    """What a worker keeps: nothing, the rows of some keys, or the whole table."""

    partial: PartialLimits | None = None
    full: Periodic | Timed | None = None


@dataclass(frozen=True)
class JdbcLookup(Lookup):
    """A table that is looked up.

    Attributes:
        server: the server that has it.
        name: as declared.
        fields: name and type of what is read.
        caching: what is kept of it.
        retries: how often a query is tried again whose connection broke.
        key: names what a worker keeps of the table; of the job.
        key_retries: how keys without rows are looked up again; None for not at all.
    """

    server: Server
    name: str
    fields: Fields
    caching: Caching
    retries: int
    key: str
    key_retries: KeyRetries | None = None

    def retrying(self, key_retries: KeyRetries) -> JdbcLookup:
        """Retries happen before the cache is filled: it keeps the result of the last retry. As in Flink, a cache of the
        whole table has no retries."""
        return self if self.caching.full is not None else replace(self, key_retries=key_retries)

    @property
    def by_key(self) -> bool:  # type: ignore[override]  # read only
        return self.caching.full is None

    def size(self) -> int | None:
        return 0 if self.by_key else None

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        resources = _resources_of(self)
        if self.caching.full is not None:
            return resources.full_cache(self.caching.full).rows(_clock, lambda: self._all(resources))
        if keys is None or not keys.columns:
            return self._all(resources)
        # Equal arrays are found among the rows.
        keys = keys.select(c for c in keys.columns if self.fields[int(c[1:])][1].root != "ARRAY").unique()
        if not keys.columns:
            return self._all(resources)
        keys = keys.filter(pl.all_horizontal(pl.all().is_not_null()))

        def read(some: pl.DataFrame) -> pl.DataFrame:
            if self.key_retries is None:
                return self._read(resources, some)
            return self.key_retries.rows(now, some, lambda rest: self._read(resources, rest))

        if self.caching.partial is None:
            return read(keys)
        with resources.lock:
            return resources.partial_cache(self.caching.partial, keys.columns).rows(keys, _clock(), read)

    def _all(self, resources: _Resources) -> pl.DataFrame:
        return persistent(lambda: resources.pool.ask(lambda query: query.rows("")), self.retries)

    def _read(self, resources: _Resources, keys: pl.DataFrame) -> pl.DataFrame:
        """The rows of distinct keys."""
        parts = [keys.slice(at, _KEYS) for at in range(0, keys.height, _KEYS)] or [keys]

        def one(part: pl.DataFrame) -> pl.DataFrame:
            return persistent(lambda: resources.pool.ask(lambda query: query.rows_of(part)), self.retries)

        if len(parts) == 1:
            return one(parts[0])
        # A stop of the job reaches these threads too.
        contexts = [copy_context() for _ in parts]
        frames: list[pl.DataFrame] = list(resources.threads.map(lambda c, part: c.run(one, part), contexts, parts))
        return pl.concat(frames)


# ---- what a worker keeps ---------------------------------------------------------------------------------------


class _Resources:
    """Connections and caches of a table in this process."""

    def __init__(self, lookup: JdbcLookup) -> None:
        self.pool = _Pool(lookup)
        self.threads = ThreadPoolExecutor(_CONNECTIONS, "jdbc-lookup")
        self.lock = threading.Lock()
        self.last_use = time.monotonic()
        self._partial: dict[tuple[str, ...], PartialCache] = {}
        self._full: FullCache | None = None

    def partial_cache(self, limits: PartialLimits, keys: list[str]) -> PartialCache:
        return self._partial.setdefault(tuple(keys), PartialCache(limits))

    def full_cache(self, reloads: Periodic | Timed) -> FullCache:
        if self._full is None:
            self._full = FullCache(reloads)
        return self._full

    def close(self) -> None:
        self.threads.shutdown()
        self.pool.close()


_TABLES: dict[str, _Resources] = {}
_LOCK = threading.Lock()
_CLOSE_AFTER, _DROP_AFTER = 60.0, 3600.0
"""Seconds without a look-up after which connections are closed, and caches dropped: nobody says that a job is over."""


def _resources_of(lookup: JdbcLookup) -> _Resources:
    with _LOCK:
        if not _TABLES:
            _watch()
        if lookup.key not in _TABLES:
            _TABLES[lookup.key] = _Resources(lookup)
        resources = _TABLES[lookup.key]
        resources.last_use = time.monotonic()
        return resources


def _watch() -> None:
    """Closes what is not used any more, from now on, while there is something."""
    timer = threading.Timer(_CLOSE_AFTER, _close_unused)
    timer.daemon = True
    timer.start()


def _close_unused() -> None:
    with _LOCK:
        for key, resources in list(_TABLES.items()):
            silent = time.monotonic() - resources.last_use
            if silent >= _DROP_AFTER:
                _TABLES.pop(key).close()
            elif silent >= _CLOSE_AFTER:
                resources.pool.close()
        if _TABLES:
            _watch()


def forget() -> None:
    """Closes the connections of this process and drops its caches."""
    with _LOCK:
        for resources in _TABLES.values():
            resources.close()
        _TABLES.clear()


@dataclass
class _Pool:
    """Connections that are not in use."""

    lookup: JdbcLookup
    _free: list[_Query] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: Callable[[_Query], T]) -> T:
        """What a connection answers. One that is broken is not used again. Raises the same errors as
        :meth:`Server.coded`."""
        with self._lock:
            query = self._free.pop() if self._free else None
        if query is None:
            query = _Query.open(self.lookup)
        try:
            with self.lookup.server.coded("looks rows up", self.lookup.name):
                answer = question(query)
        except BaseException:
            close(query.connection)
            raise
        with self._lock:
            self._free.append(query)
        return answer

    def close(self) -> None:
        with self._lock:
            for query in self._free:
                close(query.connection)
            self._free.clear()


@dataclass
class _Query:
    """A connection, and the table as it was when the connection was made.

    Attributes:
        types: the types of the columns in the answers so far. Others say that the table has changed.
    """

    lookup: JdbcLookup
    connection: Any
    table: TableInfo
    columns: list[tuple[Column, LogicalType]]
    types: list[Any] | None = None

    @classmethod
    def open(cls, lookup: JdbcLookup) -> _Query:
        connection = lookup.server.connect(autocommit=True)
        try:
            with lookup.server.coded("is asked for its tables", lookup.name):
                return cls(lookup, connection, *_match_rows(lookup, connection))
        except BaseException:
            close(connection)
            raise

    def rows(self, end: str, parameters: Any = None) -> pl.DataFrame:
        """The rows of the table, with the end of the query."""
        table = self._answer(end, parameters)
        if self.types is not None and table.schema.types != self.types:
            self.table, self.columns = _match_rows(self.lookup, self.connection)
            table = self._answer(end, parameters)
        self.types = table.schema.types
        return frame_of(table, self.lookup.fields)

    def _answer(self, end: str, parameters: Any) -> Any:
        values = [value_sql(column, data_type) for column, data_type in self.columns]
        query = f"SELECT {select_sql([*values, *guards_sql(self.columns)])} FROM {self.table.sql} AS t{end}"
        with receiving(), self.connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return cursor.fetch_arrow_table()

    def rows_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The rows of some keys; maybe more."""
        fields = [self.columns[i] for i in positions(keys.columns)]
        keys = _askable(keys, fields)
        if not keys.height:
            return self.rows(" WHERE FALSE")
        arrays, sides = [], []
        for number, (name, (column, data_type)) in enumerate(zip(keys.columns, fields, strict=True), 1):
            arrays.append(pa.array([_texts(keys, name)], pa.list_(pa.string())))
            sides.append((_left(column, data_type), f"${number}::text[]::{_cast(column, data_type)}[]"))
        parameters = pa.RecordBatch.from_arrays(arrays, names=[f"k{i}" for i in range(len(arrays))])
        if len(sides) == 1:
            return self.rows(f" WHERE {sides[0][0]} = ANY({sides[0][1]})", parameters)
        names = [f"k{i}" for i in range(len(sides))]
        array_parameters = ", ".join(right for _, right in sides)
        equal = " AND ".join(f"{left} = k.{name}" for (left, _), name in zip(sides, names, strict=True))
        return self.rows(f" JOIN unnest({array_parameters}) AS k({', '.join(names)}) ON {equal}", parameters)


def _match_rows(lookup: JdbcLookup, connection: Any) -> tuple[TableInfo, list[tuple[Column, LogicalType]]]:
    """The table and its columns, as they are now. Raises RunError RUN143, RUN144, RUN145."""
    table = find_table(connection, lookup.server, lookup.name)
    return table, [(column_of(table, lookup.server, name, data_type), data_type) for name, data_type in lookup.fields]


def _askable(keys: pl.DataFrame, fields: list[tuple[Column, LogicalType]]) -> pl.DataFrame:
    """The keys that can be values of their columns: a text that is not a UUID finds nothing, and is not an error."""
    for name, (column, data_type) in zip(keys.columns, fields, strict=True):
        if data_type.is_string and column.type == "uuid":
            keys = keys.filter(pl.col(name).str.contains(_UUID))
        elif data_type.is_string:
            keys = keys.filter(~pl.col(name).str.contains("\0", literal=True))
        elif column.type in _BOUNDS and data_type.root in ("BIGINT", "INTEGER", "SMALLINT", "TINYINT"):
            low, high = _BOUNDS[column.type]
            keys = keys.filter(pl.col(name).is_between(low, high))
    return keys


_BOUNDS = {"int2": (-(2**15), 2**15 - 1), "int4": (-(2**31), 2**31 - 1), "oid": (0, 2**32 - 1)}


def _texts(keys: pl.DataFrame, name: str) -> Any:
    """Key values as texts that PostgreSQL reads."""
    values = keys[name]
    if isinstance(values.dtype, pl.Binary):
        return ("\\x" + values.bin.encode("hex")).to_list()
    if isinstance(values.dtype, pl.Datetime):
        texts = values.dt.to_string("%Y-%m-%d %H:%M:%S%.6f")
        return (texts + "+00" if values.dtype.time_zone else texts).to_list()
    if isinstance(values.dtype, pl.Time):
        return values.dt.to_string("%H:%M:%S%.6f").to_list()
    return values.cast(pl.String).to_list()


def _cast(column: Column, data_type: LogicalType) -> str:
    """The type that keys are read as: that of the column, so that an index on it serves."""
    if data_type.is_string:
        return column.type if column.type in ("varchar", "name", "uuid", "bpchar") else "text"
    if data_type.root == "TIMESTAMP_WITHOUT_TIME_ZONE" and column.type == "timestamptz":
        return "timestamp"
    return {"DECIMAL": "numeric", "DOUBLE": "float8"}.get(data_type.root, quote_name(column.type))


def _left(column: Column, data_type: LogicalType) -> str:
    """What of the table equals a key."""
    name = f"t.{quote_name(column.name)}"
    if is_plain(column, data_type) or column.type in ("bpchar", "uuid"):
        return name
    if data_type.is_string:
        return f"{name}::text"
    if data_type.root == "DECIMAL":
        return f"round({name}, {data_type.scale or 0})"
    if data_type.root == "TIMESTAMP_WITHOUT_TIME_ZONE" and column.type == "timestamptz":
        name = value_sql(column, data_type)
    if data_type.is_timestamp:
        return f"date_trunc('{'microseconds' if (data_type.precision or 0) > 3 else 'milliseconds'}', {name})"
    return f"date_trunc('milliseconds', {name})::time" if data_type.root == "TIME_WITHOUT_TIME_ZONE" else name


def _clock() -> int:
    return time.time_ns() // 1_000_000


def lookup_of(table: SourceTable, server: Server) -> JdbcLookup:
    """The lookup of a table."""
    fields = tuple(table.fields[i] for i in table.projection)
    caching = _caching(table)
    name = table.value("table-name")
    key = uuid.uuid4().hex
    retries = table.value("lookup.max-retries")
    return JdbcLookup(server, name, fields, caching, retries, key)


def _caching(table: SourceTable) -> Caching:
    kind = table.value("lookup.cache")
    if kind == "FULL":
        if table.value("lookup.full-cache.reload-strategy") == "PERIODIC":
            from_begin = table.value("lookup.full-cache.periodic-reload.schedule-mode") == "FIXED_RATE"
            return Caching(full=Periodic(table.value("lookup.full-cache.periodic-reload.interval"), from_begin))
        at = time_of_day(table.value("lookup.full-cache.timed-reload.iso-time"))
        return Caching(full=Timed(at or 0, table.value("lookup.full-cache.timed-reload.interval-in-days")))
    if kind == "PARTIAL":
        start = "lookup.partial-cache."
        ends = ("max-rows", "expire-after-write", "expire-after-access", "cache-missing-key")
        return Caching(PartialLimits(*(table.value(start + end) for end in ends)))
    older = (table.value("lookup.cache.max-rows"), table.value("lookup.cache.ttl"))
    if older[0] > 0 and older[1] > 0:
        return Caching(PartialLimits(older[0], older[1], None, table.value("lookup.cache.caching-missing-key")))
    return Caching()
