"""Tables of PostgreSQL and their columns, and which values of theirs are values of Flink's types.

Source: Flink's ``PostgresTypeMapper``, ``PostgresDialect`` and ``PostgresDialectConverter``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import CatalogError, DataError, Place, RunError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, MAX_LENGTH, STRING, LogicalType
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.postgres import Server, literal, quote_name, rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_COLUMNS = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, a.attname::text,
       CASE WHEN t.typtype = 'd' THEN b.typname ELSE t.typname END::text,
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       format_type(a.atttypid, a.atttypmod),
       a.attnotnull, a.attgenerated <> '' OR a.attidentity = 'a',
       c.relkind NOT IN ('v', 'm') AND NOT c.relhasrules AND NOT row_security_active(c.oid)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = t.typbasetype
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {where}
ORDER BY c.oid, a.attnum
"""

_TABLES = """
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname ELSE n.nspname || '.' || c.relname END::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY 1 LIMIT 5000
"""


# ---- tables ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: as the database has it.
        type: internal name, such as ``int8``; ``_int8`` for an array. Of a domain, that of its base.
        modifier: the modifier of the type (``atttypmod``): length, or precision and scale; -1 for none.
        sql_type: the type as SQL, such as ``numeric(10,2)``.
        not_null: whether NULL is refused.
        is_generated: whether the database alone makes its values.
    """

    name: str
    type: str
    modifier: int
    sql_type: str
    not_null: bool
    is_generated: bool


@dataclass(frozen=True)
class TableInfo:
    """A table or view.

    Attributes:
        oid: its number in the catalog.
        schema: the schema that contains it.
        name: as the database has it.
        columns: in order.
        takes_copy: whether COPY does to it what INSERT does: it is not a view, no rule rewrites the INSERT, and no
            policy of row-level security applies to the user.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    takes_copy: bool

    @property
    def sql(self) -> str:
        """Its name as SQL."""
        return f"{quote_name(self.schema)}.{quote_name(self.name)}"

    @property
    def path(self) -> str:
        """Its name for people."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> Column | None:
        """The column of a name; if there is none exactly so, the one that SQL finds without quotes."""
        by_name = {c.name: c for c in self.columns}
        return by_name.get(name) or by_name.get(name.lower())


_PART = re.compile(r'(?:"((?:[^"]|"")+)"|([^".][^.]*))(\.|\Z)')


def split_name(text: str) -> list[str] | None:
    """The parts of ``schema.table``, whose parts may appear in double quotes; None for a text that is not a name."""
    parts: list[str] = []
    at, more = 0, True
    while more:
        match = _PART.match(text, at)
        if match is None or (match[1] and not match[1].strip('"')):
            return None
        parts.append(match[2] or '"' + match[1].replace('""', '"'))
        at, more = match.end(), match[3] == "."
    return parts


def _is(column: str, part: str) -> str:
    """The condition that a name of the catalog is a part of :func:`split_name`."""
    if part.startswith('"'):
        return f"{column} = {literal(part[1:])}"
    return f"{column} IN ({literal(part)}, {literal(part.lower())})"


def find_table(connection: Any, server: Server, name: str) -> TableInfo:
    """A table of the database.

    Args:
        connection: to the database.
        server: of it.
        name: ``table`` or ``schema.table``; a part without double quotes is also found in lower case, as by SQL.

    Raises:
        RunError: RUN143, there is no such table, with the names that are like it.
        Error: of the client library; see :meth:`Server.coded`.
    """
    parts = split_name(name) or [name]
    conditions = [_is("c.relname", parts[-1])]
    conditions.append(_is("n.nspname", parts[-2]) if len(parts) > 1 else "pg_table_is_visible(c.oid)")
    rows_by_table: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows(connection, _COLUMNS.format(where=" AND ".join(conditions))):
        rows_by_table.setdefault(row[0], []).append(row)
    tables = [
        TableInfo(
            oid, some[0][1], some[0][2], tuple(Column(*row[3:-1]) for row in some if row[3] is not None), some[0][-1]
        )
        for oid, some in rows_by_table.items()
    ]
    exact = [part.removeprefix('"') for part in parts]
    tables.sort(key=lambda t: (t.name != exact[-1], len(exact) > 1 and t.schema != exact[-2]))
    if not tables:
        table_names = [str(row[0]) for row in rows(connection, _TABLES)]
        same = [other for other in table_names if other.rpartition(".")[2].lower() == exact[-1].lower()]
        hint = f"did you mean '{same[0]}'?" if same else nearest(name, table_names)
        raise RunError("RUN143", server=server.summary, name=f"'{name}'", hint=hint)
    return tables[0]


def primary_key_of(connection: Any, oid: int) -> tuple[str | None, tuple[str, ...]]:
    """Name and columns of the primary key of a table; None and none if it has none. Raises errors of the client
    library."""
    query = (
        "SELECT k.conname::text, a.attname::text FROM pg_constraint k, unnest(k.conkey) WITH ORDINALITY AS u(n, i) "
        f"JOIN pg_attribute a ON a.attrelid = {oid} AND a.attnum = u.n "
        f"WHERE k.conrelid = {oid} AND k.contype = 'p' ORDER BY u.i"
    )
    key_rows = rows(connection, query)
    return (str(key_rows[0][0]) if key_rows else None), tuple(str(row[1]) for row in key_rows)


# ---- types -----------------------------------------------------------------------------------------------------


_SUPPORTED = frozenset(
    (
        *("CHAR", "VARCHAR", "BOOLEAN", "VARBINARY", "DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        *("FLOAT", "DOUBLE", "DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE"),
        *("TIMESTAMP_WITH_LOCAL_TIME_ZONE", "ARRAY"),
    )
)

_FITS: Mapping[str, tuple[str, ...]] = {
    "BOOLEAN": ("bool",),
    "TINYINT": ("int2",),
    "SMALLINT": ("int2",),
    "INTEGER": ("int4", "int2"),
    "BIGINT": ("int8", "int4", "int2", "oid"),
    "FLOAT": ("float4",),
    "DOUBLE": ("float8", "float4"),
    "DECIMAL": ("numeric", "int8", "int4", "int2"),
    "VARBINARY": ("bytea",),
    "DATE": ("date",),
    "TIME_WITHOUT_TIME_ZONE": ("time",),
    "TIMESTAMP_WITHOUT_TIME_ZONE": ("timestamp", "timestamptz"),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": ("timestamptz",),
}
"""Root of a declared type to the types of PostgreSQL whose values it takes. Texts take the text of any type."""

_NUMBERS = ("int2", "int4", "int8", "numeric")

_TAKES: Mapping[str, tuple[str, ...]] = {
    **_FITS,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), _NUMBERS),
    "FLOAT": ("float4", "float8"),
    "DOUBLE": ("float8",),
    "DECIMAL": ("numeric",),
}
"""Root of a declared type to the types of PostgreSQL that take its values. A number that is too large is an error of
its row. Any type takes texts that are one of its values."""

_TEXTS = ("text", "varchar", "bpchar", "name")
_MAX_PRECISION = 38


def flink_type(type_name: str, modifier: int) -> LogicalType | None:
    """The type that a column has in Flink when nobody declares it; None for one that has none.

    Args:
        type_name: internal name, such as ``int8`` or ``_int8``.
        modifier: see :class:`Column`.
    """
    if type_name.startswith("_"):
        element = flink_type(type_name[1:], modifier)
        return None if element is None else LogicalType("ARRAY", children=(element,))
    simple = {
        "bool": BOOLEAN,
        "int2": LogicalType("SMALLINT"),
        "int4": INT,
        "int8": BIGINT,
        "float4": LogicalType("FLOAT"),
        "float8": DOUBLE,
        "date": DATE,
        "text": STRING,
        "name": STRING,
        "bytea": LogicalType("VARBINARY", length=MAX_LENGTH),
        "uuid": LogicalType("VARCHAR", length=36),
    }
    if type_name in simple:
        return simple[type_name]
    if type_name == "numeric":
        precision, scale = numeric_modifier(modifier)
        if precision is None:
            return LogicalType("DECIMAL", precision=_MAX_PRECISION, scale=18)
        fits = precision <= _MAX_PRECISION and 0 <= scale <= precision
        return LogicalType("DECIMAL", precision=precision, scale=scale) if fits else None
    if type_name in ("varchar", "bpchar"):
        length = modifier - 4 if modifier >= 4 else MAX_LENGTH
        return LogicalType("VARCHAR" if type_name == "varchar" or modifier < 4 else "CHAR", length=length)
    times = {
        "time": "TIME_WITHOUT_TIME_ZONE",
        "timestamp": "TIMESTAMP_WITHOUT_TIME_ZONE",
        "timestamptz": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    }
    if type_name in times:
        return LogicalType(times[type_name], precision=modifier if modifier >= 0 else 6)
    return None


def numeric_modifier(modifier: int) -> tuple[int | None, int]:
    """Precision and scale of a numeric; None and 0 if neither is declared."""
    if modifier < 4:
        return None, 0
    scale = (modifier - 4) & 0x7FF
    return ((modifier - 4) >> 16) & 0xFFFF, scale - 0x800 if scale >= 0x400 else scale


def check_types(fields: Fields, owner: str, place: Place | None) -> None:
    """Refuses columns of types that PostgreSQL cannot hold.

    Raises:
        CatalogError: CAT102, such a column.
    """
    for name, data_type in fields:
        element = data_type.children[0] if data_type.root == "ARRAY" else data_type
        precise = element.is_timestamp and (element.precision or 0) > 6
        if element.root not in _SUPPORTED or element.root == "ARRAY" or precise:
            raise CatalogError(
                "CAT102",
                owner=owner,
                column=name,
                type=data_type,
                place=place,
                expected="a type that PostgreSQL has: no ROW, MAP, BINARY, interval or nested array, and at most "
                "microseconds",
            )


def fitting(column: Column) -> str:
    """The declarations that go with a column, for errors."""
    natural = flink_type(column.type, column.modifier)
    return "STRING" if natural is None else natural.summary() if natural.is_string else f"{natural.summary()} or STRING"


def _fits(type_name: str, data_type: LogicalType, fits: Mapping[str, tuple[str, ...]]) -> bool:
    if data_type.is_string:
        return True
    if data_type.root == "ARRAY":
        return type_name.startswith("_") and _fits(type_name[1:], data_type.children[0], fits)
    return type_name in fits[data_type.root]


def column_of(table: TableInfo, server: Server, name: str, data_type: LogicalType, is_sink: bool = False) -> Column:
    """The column of a declared one.

    Args:
        table: the table of the database.
        server: of it.
        name: as declared.
        data_type: its type.
        is_sink: whether values go to the column, and do not come from it.

    Raises:
        RunError: RUN144, it does not exist; RUN145, its values are not of the declared type.
    """
    column = table.column(name)
    if column is None:
        names = [c.name for c in table.columns]
        hint = nearest(name, names)
        raise RunError("RUN144", name=table.path, column=name, columns=names[:20], server=server.summary, hint=hint)
    if not _fits(column.type, data_type, _TAKES if is_sink else _FITS):
        raise RunError(
            "RUN145",
            column=name,
            name=table.path,
            actual=column.sql_type,
            declared=data_type,
            server=server.summary,
            fitting=fitting(column),
        )
    return column


# ---- reading ---------------------------------------------------------------------------------------------------


def is_plain(column: Column, data_type: LogicalType) -> bool:
    """Whether a value of the column equals the value that is read, so that conditions on one hold on the other."""
    if data_type.root in ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "TIME_WITHOUT_TIME_ZONE"):
        precision = column.modifier if column.modifier >= 0 else 6
        same = (column.type == "timestamptz") == (data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
        return same and precision <= (6 if data_type.is_timestamp and (data_type.precision or 0) > 3 else 3)
    if data_type.root == "DECIMAL" and column.type == "numeric":
        return _is_exact(column, data_type)
    if data_type.is_string:
        return column.type in ("text", "varchar", "name")
    return data_type.root != "ARRAY"


def _is_exact(column: Column, data_type: LogicalType) -> bool:
    """Whether no number of a column, or of its arrays, has more digits behind the point than a DECIMAL."""
    digits, scale = numeric_modifier(column.modifier)
    return digits is not None and scale <= (data_type.scale or 0)


def value_sql(column: Column, data_type: LogicalType) -> str:
    """The expression that gives the value of a column for :func:`frame_of`. A point in time becomes a TIMESTAMP in the
    time zone of the connection.

    Args:
        column: of the database.
        data_type: what it is read as.
    """
    name = quote_name(column.name)
    if data_type.is_string:
        return name if column.type in ("text", "varchar", "bpchar") else f"{name}::text"
    if data_type.root == "DECIMAL" and column.type == "numeric":
        return f"{name}::text" if is_plain(column, data_type) else f"round({name}, {data_type.scale or 0})::text"
    if data_type.root == "TIMESTAMP_WITHOUT_TIME_ZONE" and column.type == "timestamptz":
        return f"{name}::timestamp"
    if data_type.root == "BIGINT" and column.type == "oid":
        return f"{name}::bigint"
    if data_type.root == "ARRAY":
        element = data_type.children[0]
        if element.root == "DECIMAL" and column.type == "_numeric" and not _is_exact(column, element):
            elements = f"SELECT round(e, {element.scale or 0})::text FROM unnest({name}) WITH ORDINALITY AS u(e, i)"
            name = f"CASE WHEN {name} IS NOT NULL THEN ARRAY({elements} ORDER BY i) END"
        elif element.root == "DECIMAL" or (element.is_string and column.type[1:] not in _TEXTS):
            name = f"{name}::text[]"
        elif element.root == "TIMESTAMP_WITHOUT_TIME_ZONE" and column.type == "_timestamptz":
            name = f"{name}::timestamp[]"
        # A value with more dimensions would come as one long array; guards_sql finds it. A slice counts from 1: ADBC
        # reads no arrays that begin elsewhere.
        return f"CASE WHEN array_ndims({quote_name(column.name)}) > 1 THEN NULL ELSE ({name})[:] END"
    return name


def guards_sql(columns: Sequence[tuple[Column, LogicalType]]) -> list[str]:
    """Conditions that no row may satisfy, one for each array column: it has several dimensions."""
    arrays = (quote_name(column.name) for column, data_type in columns if data_type.root == "ARRAY")
    return [f"COALESCE(array_ndims({name}) > 1, FALSE)" for name in arrays]


_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31
_DAY_US = 86_400_000_000


def frame_of(data: pa.RecordBatch | pa.Table, fields: Fields) -> pl.DataFrame:
    """The rows of a query as the columns ``c0, c1, ...``.

    Args:
        data: what the query gave: the values of :func:`value_sql`, then those of :func:`guards_sql`.
        fields: name and declared type of the values.

    Raises:
        DataError: DATA430, a value that the declared type does not have.
    """
    import polars as pl

    for i, (name, data_type) in enumerate(fields):
        _check_times(data.column(i), name, data_type)
    arrays = [field for field in fields if field[1].root == "ARRAY"]
    frame = pl.from_arrow(data)
    assert isinstance(frame, pl.DataFrame)
    for i, (name, data_type) in enumerate(arrays):
        if frame.to_series(len(fields) + i).any():
            raise DataError("DATA430", column=name, declared=data_type, value="an array of several dimensions")
    if not fields:
        return frame.select([])
    return pl.DataFrame(
        [_convert(frame.to_series(i), name, data_type).alias(f"c{i}") for i, (name, data_type) in enumerate(fields)]
    )


def _convert(values: pl.Series, name: str, data_type: LogicalType) -> pl.Series:
    """Values as the declared type has them."""
    import polars as pl

    target = data_type.polars()
    if isinstance(target, pl.Time):
        milliseconds = values.cast(target).to_physical() // 1_000_000  # all that Flink has of a TIME
        return (milliseconds * 1_000_000).cast(target)
    if values.dtype == target:
        return values
    try:
        return values.cast(target)
    except pl.exceptions.PolarsError:
        element = data_type.children[0] if data_type.root == "ARRAY" else data_type
        flat = values.explode() if data_type.root == "ARRAY" else values
        wrong = flat.filter(flat.cast(element.polars(), strict=False).is_null() & flat.is_not_null())
        value = wrong[0] if wrong.len() else "one that is too large"
        raise DataError("DATA430", column=name, declared=element, value=value) from None


def _check_times(values: pa.Array | pa.ChunkedArray, name: str, data_type: LogicalType) -> None:
    """Refuses dates and times that Flink's types do not have: infinity, years before 1 or after 9999, 24:00."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(values.type):
        values, data_type = pc.list_flatten(values), data_type.children[0]
    if pa.types.is_date(values.type):
        per_day, numbers = 1, values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        per_day, numbers = _DAY_US, values.cast(pa.int64())
    elif pa.types.is_time(values.type):
        if pc.any(pc.greater_equal(values.cast(pa.int64()), _DAY_US)).as_py():
            raise DataError("DATA430", column=name, declared=data_type, value="24:00")
        return
    else:
        return
    least, most = pc.min_max(numbers).as_py().values()
    if least is None or (_FIRST_DAY * per_day <= least and most < (_LAST_DAY + 1) * per_day):
        return
    number = least if least < _FIRST_DAY * per_day else most
    year = 1970 + int(number // per_day // 365.2425)
    value = f"about the year {year if year > 0 else f'{1 - year} BC'}" if abs(year) < 290_000 else "infinity"
    raise DataError("DATA430", column=name, declared=data_type, value=value)


def select_sql(columns: Iterable[str]) -> str:
    """Expressions as the columns ``c0, c1, ...`` of a SELECT; a constant if there are none."""
    return ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(columns)) or "1 AS one"
