"""Messages of pgoutput: many at once give what one after the other says."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import RowKind
from stateplan.common.errors import DataError
from stateplan.common.types import parse_type
from stateplan.connectors.postgres_cdc.pgoutput import Messages, Relation, Transactions, Visible
from stateplan.connectors.postgres_cdc.rows import RowReader
from stateplan.connectors.postgres_cdc.values import elements, values

Row = Sequence[str | None]
LEFT_OUT = "<left out>"
FIELDS = tuple((f.name, f.type) for f in parse_type("ROW<id INT, name STRING, n DECIMAL(10, 2)>").fields)
TYPES = (23, 25, 1700)


# ---- messages, written one by one ------------------------------------------------------------------------------


def begin(lsn: int, xid: int = 7, micros: int = 0) -> bytes:
    return b"B" + struct.pack(">QqI", lsn, micros, xid)


def commit(lsn: int, end: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, lsn, end, 0)


def relation(oid: int = 1, name: str = "t", identity: str = "f", columns: Sequence[tuple[str, int]] = ()) -> bytes:
    listed = columns or [(field, kind) for (field, _), kind in zip(FIELDS, TYPES, strict=True)]
    parts = [b"R", struct.pack(">I", oid), b"public\0", name.encode() + b"\0", identity.encode()]
    parts.append(struct.pack(">H", len(listed)))
    for i, (column, kind) in enumerate(listed):
        key = identity == "f" or (identity == "d" and i == 0)
        parts += [struct.pack(">B", key), column.encode() + b"\0", struct.pack(">Ii", kind, -1)]
    return b"".join(parts)


def row(items: Row) -> bytes:
    parts = [struct.pack(">H", len(items))]
    for item in items:
        if item is None or item == LEFT_OUT:
            parts.append(b"n" if item is None else b"u")
        else:
            parts += [b"t", struct.pack(">I", len(item.encode())), item.encode()]
    return b"".join(parts)


def insert(new: Row, oid: int = 1) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(new)


def update(new: Row, old: Row | None = None, mark: bytes = b"O", oid: int = 1) -> bytes:
    return b"U" + struct.pack(">I", oid) + (b"" if old is None else mark + row(old)) + b"N" + row(new)


def delete(old: Row, mark: bytes = b"O", oid: int = 1) -> bytes:
    return b"D" + struct.pack(">I", oid) + mark + row(old)


def truncate(oid: int = 1) -> bytes:
    return b"T" + struct.pack(">IBI", 1, 0, oid)


def array(*messages: bytes) -> Any:
    return pa.array(list(messages), pa.binary())


def reading(retract: bool = True, key: Sequence[str] = ("id",), **more: Any) -> RowReader:
    given = {"metadata": (), "skip_truncate": False, "database": "db", **more}
    return RowReader(FIELDS, key=tuple(key), retract=retract, **given)


def kinds(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    return [(RowKind(kind).short, *rest) for *rest, kind in frame.rows()]


def read(*messages: bytes, **how: Any) -> list[tuple[Any, ...]]:
    return kinds(reading(**how).changes(array(begin(1), relation(), *messages)))


# ---- rows ------------------------------------------------------------------------------------------------------


def test_changes_with_old_rows() -> None:
    found = read(
        insert(("1", "a", "1.5")),
        update(("1", "b", None), ("1", "a", "1.50")),
        update(("2", "b", "0"), ("1", "b", None)),
        delete(("2", "b", "0.00")),
    )
    assert found == [
        ("+I", 1, "a", Decimal("1.50")),
        ("-U", 1, "a", Decimal("1.50")),
        ("+U", 1, "b", None),
        ("-D", 1, "b", None),
        ("+I", 2, "b", Decimal("0.00")),
        ("-D", 2, "b", Decimal("0.00")),
    ]


def test_without_a_key_another_id_is_an_update() -> None:
    assert [r[0] for r in read(update(("2", "b", "0"), ("1", "b", None)), key=())] == ["-U", "+U"]


def test_upserts_need_only_keys() -> None:
    frame = reading(retract=False).changes(
        array(
            begin(1),
            relation(identity="d"),
            update(("1", "b", "2")),
            update(("3", "c", "2"), ("2", None, None), b"K"),
            delete(("1", None, None), b"K"),
        )
    )
    assert kinds(frame) == [
        ("+U", 1, "b", Decimal(2)),
        ("-D", 2, None, None),
        ("+I", 3, "c", Decimal(2)),
        ("-D", 1, None, None),
    ]


def test_values_that_were_left_out_come_from_the_old_row() -> None:
    assert read(update(("1", LEFT_OUT, "2"), ("1", "large", "1")))[1] == ("+U", 1, "large", Decimal(2))


@pytest.mark.parametrize(
    ("code", "messages", "how"),
    [
        ("DATA440", [b""], {}),
        ("DATA440", [insert(("1", "a", "1"))[:-3]], {}),
        ("DATA440", [insert(("1", "a", "1")) + b"x"], {}),
        ("DATA440", [insert(("1", "a"))], {}),
        ("DATA440", [insert(("1", "a", "1"), oid=9)], {}),
        ("DATA440", [b"I\0\0\0\1N\0\3t\0\0\0\1" + b"1t\0\0\0\1\xffn"], {}),
        ("DATA441", [update(("1", "b", "2"))], {}),
        ("DATA441", [delete(("1", None, None), b"K")], {}),
        ("DATA441", [relation(identity="d"), update(("1", "b", "2"))], {"retract": False, "key": ("name",)}),
        ("DATA442", [relation(identity="d"), update(("1", LEFT_OUT, "2"))], {"retract": False}),
        ("DATA443", [insert(("99999999999", "a", "1"))], {}),
        ("DATA443", [insert(("1", "a", "NaN"))], {}),
        ("DATA444", [relation(columns=[("id", 23), ("name", 25)]), insert(("1", "a"))], {}),
        ("DATA444", [relation(columns=[("id", 25), ("name", 25), ("n", 1700)]), insert(("1", "a", "1"))], {}),
        ("DATA445", [truncate()], {}),
    ],
)
def test_what_cannot_be_right_is_refused(code: str, messages: list[bytes], how: dict[str, Any]) -> None:
    with pytest.raises(DataError) as caught:
        read(*messages, **how)
    assert caught.value.code == code


def test_a_truncation_can_be_skipped() -> None:
    assert read(truncate(), insert(("1", "a", "1")), skip_truncate=True) == [("+I", 1, "a", Decimal(1))]


def test_a_table_that_gets_and_loses_columns() -> None:
    wide = relation(columns=[("id", 23), ("more", 1082), ("name", 25), ("n", 1700)])
    found = read(
        insert(("1", "a", "1")), wide, insert(("2", "2024-01-01", "b", "2")), relation(), insert(("3", "c", "3"))
    )
    assert [r[1:3] for r in found] == [(1, "a"), (2, "b"), (3, "c")]


def test_tables_of_one_stream_keep_the_order_of_their_changes() -> None:
    frame = reading(metadata=("schema_name", "table_name", "database_name", "row_kind", "op_ts")).changes(
        array(
            begin(1, micros=1_000_000),
            relation(),
            relation(2, "u"),
            insert(("1", "a", "1")),
            insert(("2", "a", "1"), oid=2),
            begin(2, micros=2_500_000),
            delete(("1", "a", "1")),
        )
    )
    assert [(r[0], *r[3:]) for r in frame.drop("kind").rows()] == [
        (1, "public", "t", "db", "+I", datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (2, "public", "u", "db", "+I", datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (1, "public", "t", "db", "-D", datetime(2000, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC)),
    ]


_TEXT = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9))
_ROW = st.tuples(st.integers(0, 5).map(str), _TEXT, st.one_of(st.none(), st.decimals(-999, 999, places=2).map(str)))
_CHANGE = st.one_of(
    st.tuples(st.just("insert"), _ROW),
    st.tuples(st.just("delete"), _ROW),
    st.tuples(st.just("update"), _ROW, _ROW, st.booleans()),
)


@given(st.lists(st.tuples(st.integers(1, 3), _CHANGE), max_size=30), st.booleans(), st.integers(1, 8))
def test_many_messages_are_like_one_after_the_other(
    changes: list[tuple[int, tuple[Any, ...]]], retract: bool, size: int
) -> None:
    messages, expected = [begin(10), *(relation(oid, f"t{oid}") for oid in (1, 2, 3))], []
    for oid, (what, first, *rest) in changes:
        if what == "insert":
            messages.append(insert(first, oid))
            expected.append(("+I", first))
        elif what == "delete":
            messages.append(delete(first, oid=oid))
            expected.append(("-D", first))
        else:
            new = rest[0]
            if rest[1]:  # a large value that stays the same
                new = (new[0], first[1], new[2])
            sent = (new[0], LEFT_OUT, new[2]) if rest[1] else new
            messages.append(update(sent, first, oid=oid))
            moved = new[0] != first[0]
            if moved or retract:
                expected.append(("-D" if moved else "-U", first))
            expected.append(("+I" if moved else "+U", new))
    transactions = Transactions(0)
    found = []
    for at in range(0, len(messages), size):
        kept = transactions.keep(array(*messages[at : at + size]))
        if len(kept):
            found += kinds(reading(retract=retract).changes(kept))
    assert [(kind, str(i), name) for kind, i, name, _ in found] == [(kind, r[0], r[1]) for kind, r in expected]
    assert [n for *_, n in found] == [None if r[2] is None else Decimal(r[2]) for _, r in expected]


@given(st.lists(st.integers(0, 255), max_size=40), st.integers(0, 60), st.binary(max_size=4))
def test_damaged_messages_are_refused(values_: list[int], at: int, patch: bytes) -> None:
    whole = update(("1", "some text", "2"), ("1", "some", "1"))
    damaged = whole[:at] + patch + whole[at + len(patch) :]
    for message in (damaged, bytes([73, 0, 0, 0, 1, *values_]), whole[: at + 1]):
        try:
            read(message)
        except DataError as error:
            assert error.code in ("DATA440", "DATA441", "DATA442", "DATA443")


# ---- transactions ----------------------------------------------------------------------------------------------


def test_transactions_before_the_start_do_not_count() -> None:
    found = Transactions(100)
    kept = found.keep(
        array(
            begin(50), relation(), insert(("1", "a", "1")), commit(50, 60),
            begin(100), insert(("2", "a", "1")), commit(100, 110),
        )
    )  # fmt: skip
    assert [r[1] for r in kinds(reading().changes(kept))] == [2]
    assert (found.end, found.rows) == (110, 1)


def test_transactions_that_a_snapshot_has_seen_do_not_count() -> None:
    found = Transactions(0, Visible.of("10:20:12,15"), 500)
    messages = [relation()]
    for xid, lsn in ((9, 1), (12, 2), (13, 3), (19, 4), (20, 5), (13, 500)):
        messages += [begin(lsn, xid), insert((str(xid), None, None)), commit(lsn, lsn + 1)]
    assert [r[1] for r in kinds(reading().changes(found.keep(array(*messages))))] == [12, 20, 13]


def test_ids_of_transactions_begin_again_after_32_bits() -> None:
    epoch = 3 << 32
    seen = Visible.of(f"{epoch - 5}:{epoch + 10}:{epoch - 2},{epoch + 4}")
    xids = np.array([(1 << 32) - 6, (1 << 32) - 2, (1 << 32) - 1, 3, 4, 9, 10, 11], np.int64)
    assert seen.has(xids).tolist() == [True, False, True, True, False, True, False, False]


def test_changes_of_other_tables_do_not_count() -> None:
    found = Transactions(0, tables=frozenset({2}))
    others = array(begin(1), relation(), insert(("1", "a", "1")), truncate(), commit(1, 2))
    assert (len(found.keep(others)), found.rows, found.end) == (0, 0, 2)
    mine = found.keep(array(begin(2), relation(2), insert(("5", "a", "1"), oid=2), commit(2, 3)))
    assert [r[1] for r in kinds(reading().changes(mine))] == [5]


def test_descriptions() -> None:
    found = Relation.of(relation(5, "naïve", "d"))
    assert (found.oid, found.schema, found.name, found.full) == (5, "public", "naïve", False)
    assert [(c.name, c.type, c.key) for c in found.columns] == [
        ("id", 23, True),
        ("name", 25, False),
        ("n", 1700, False),
    ]
    with pytest.raises(DataError):
        Relation.of(relation()[:-2])
    assert len(Messages(array())) == 0


# ---- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [
        ("BOOLEAN", "t", True),
        ("TINYINT", "-128", -128),
        ("DECIMAL(5, 2)", "1.005", Decimal("1.01")),
        ("DECIMAL(5, 2)", "-1.005", Decimal("-1.01")),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("FLOAT", "1e-05", pytest.approx(1e-05)),
        ("BYTES", "\\x00ff", b"\x00\xff"),
        ("TIMESTAMP(3)", "1969-12-31 23:59:59.9995", datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        ("TIMESTAMP(6)", "0001-01-01 00:00:00", datetime(1, 1, 1)),
        ("TIMESTAMP_LTZ(6)", "2024-02-29 12:00:00.5+00", datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC)),
        ("ARRAY<INT>", "[0:2]={1,NULL,3}", [1, None, 3]),
        ("ARRAY<STRING>", '{a,"b, \\"c\\\\","NULL",null,""}', ["a", 'b, "c\\', "NULL", None, ""]),
        ("ARRAY<STRING>", "{}", []),
    ],
)
def test_values(declared: str, text: str, expected: Any) -> None:
    found = values(pl.Series([text, None]), parse_type(declared), "c", "t")
    assert found.dtype == parse_type(declared).polars()
    assert found.to_list() == [expected, None]


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("SMALLINT", "32768"),
        ("DECIMAL(4, 2)", "99.995"),
        ("DATE", "infinity"),
        ("DATE", "0044-03-15 BC"),
        ("TIME(3)", "24:00:00"),
        ("TIMESTAMP(6)", "10000-01-01 00:00:00"),
        ("TIMESTAMP(9)", "10000-01-01 00:00:00"),
        ("ARRAY<INT>", "{{1},{2}}"),
        ("ARRAY<SMALLINT>", "{1,70000}"),
    ],
)
def test_values_that_a_type_has_not(declared: str, text: str) -> None:
    with pytest.raises(DataError) as caught:
        values(pl.Series([None, text]), parse_type(declared), "c", "t")
    assert caught.value.code == "DATA443" and text in str(caught.value)


@given(st.lists(st.one_of(st.none(), st.text(max_size=5))))
def test_arrays_are_read_as_they_are_written(items: list[str | None]) -> None:
    escaped = ["NULL" if i is None else '"' + i.replace("\\", "\\\\").replace('"', '\\"') + '"' for i in items]
    assert elements("{" + ",".join(escaped) + "}") == items
