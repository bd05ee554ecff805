"""Messages of PostgreSQL's plug-in ``pgoutput`` as columns, many at once and without a loop over rows.

A message is a change of a row, or says to which transaction and relation the changes after it belong. Values are text,
as PostgreSQL writes them. Source: "Logical Replication Message Formats" in the documentation of PostgreSQL, protocol
version 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.errors import DataError
from stateplan.common.lazy_dataclass import dataclass

BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE = b"BCRIUDT"
"""The first byte of a message."""

CHANGES = (INSERT, UPDATE, DELETE)

_SHORTEST = np.full(256, 1 << 30, np.int64)
"""First byte of a message to its shortest length. Those that say nothing here are of origins, types and users."""

_SHORTEST[[BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE, *b"OYM"]] = [21, 26, 10, 8, 8, 8, 6, 9, 7, 14]

_KEY, _OLD, _NEW = b"KON"
_NULL, _UNCHANGED, _TEXT = b"nut"
_EPOCH = 946_684_800_000_000
"""2000-01-01, where PostgreSQL's clock begins, in microseconds since 1970."""

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


# ---- what messages say ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RelationColumn:
    """A column of a relation.

    Attributes:
        name: the name of the column.
        type: OID of its type.
        modifier: length or precision of the type; -1 for none.
        key: whether old rows have it: it belongs to the replica identity.
    """

    name: str
    type: int
    modifier: int
    key: bool


@dataclass(frozen=True)
class Relation:
    """A table as it was when the changes after the message were made.

    Attributes:
        oid: the oid of the table.
        schema: the schema that contains it.
        name: the name of the table.
        identity: what old rows have: ``d`` (primary key), ``i`` (columns of an index), ``f`` (all columns), ``n``.
        columns: in the order of values.
    """

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]

    @property
    def full(self) -> bool:
        """Whether old rows are whole."""
        return self.identity == "f"

    @classmethod
    def of(cls, message: bytes) -> Relation:
        """What a message of kind ``R`` says. Raises DataError DATA440."""
        try:
            oid = int.from_bytes(message[1:5], "big")
            schema, at = _word(message, 5)
            name, at = _word(message, at)
            identity, count = chr(message[at]), int.from_bytes(message[at + 1 : at + 3], "big")
            at, relation_columns = at + 3, []
            for _ in range(count):
                column, end = _word(message, at + 1)
                kind, modifier = struct.unpack_from(">Ii", message, end)
                relation_columns.append(RelationColumn(column, kind, modifier, message[at] & 1 == 1))
                at = end + 8
        except (IndexError, ValueError, struct.error) as error:
            raise _broken("a message about a table is cut off") from error
        return cls(oid, schema or "pg_catalog", name, identity, tuple(relation_columns))


def truncated_tables(message: bytes) -> tuple[int, ...]:
    """OIDs of the tables that a message of kind ``T`` empties. Raises DataError DATA440."""
    count = int.from_bytes(message[1:5], "big")
    if len(message) != 6 + 4 * count:
        raise _broken("a message about truncated tables is cut off")
    return struct.unpack_from(f">{count}I", message, 6)


def _word(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def _broken(reason: str) -> DataError:
    return DataError("DATA440", reason=reason)


# ---- many messages -------------------------------------------------------------------------------------------------


class Messages:
    """Messages in the order in which the server sent them.

    Attributes:
        bytes: of all of them, and maybe more.
        starts: where each begins.
        ends: where it ends.
        kinds: first byte of each.
    """

    def __init__(self, array: pa.Array[Any]) -> None:
        array = array.cast(pa.large_binary())
        _, offsets, data = array.buffers()
        edges = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1] if len(array) else None
        self.bytes: Bytes = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        self.starts: Integers = edges[:-1] if edges is not None else np.empty(0, np.int64)
        self.ends: Integers = edges[1:] if edges is not None else np.empty(0, np.int64)
        if bool((self.starts == self.ends).any()):
            raise _broken("a message is empty")
        self.kinds: Bytes = self.bytes[self.starts]
        wrong = self.ends - self.starts < _SHORTEST[self.kinds]
        if wrong.any():
            raise _broken(f"a message of kind {chr(self.kinds[wrong][0])!r} is cut off, or not of the protocol")

    def __len__(self) -> int:
        return len(self.starts)

    def message(self, index: int) -> bytes:
        """The bytes of one message."""
        return self.bytes[self.starts[index] : self.ends[index]].tobytes()

    def integers(self, at: Integers, width: int) -> Integers:
        """Unsigned numbers of ``width`` bytes, the highest first."""
        numbers = np.zeros(len(at), np.int64)
        for i in range(width):
            numbers = (numbers << 8) | self.bytes[at + i]
        return numbers

    def positions_of(self, *kinds: int) -> Integers:
        """Positions of the messages of some kinds, ascending."""
        return np.flatnonzero(np.isin(self.kinds, kinds))

    def begins(self) -> Begins:
        """The transactions that begin among the messages."""
        at = self.positions_of(BEGIN)
        start = self.starts[at]
        return Begins(
            at, self.integers(start + 1, 8), self.integers(start + 9, 8) + _EPOCH, self.integers(start + 17, 4)
        )

    def commits(self) -> tuple[Integers, Integers]:
        """Positions of the messages that end a transaction, and where in the log each ends."""
        at = self.positions_of(COMMIT)
        return at, self.integers(self.starts[at] + 10, 8)


@dataclass(frozen=True)
class Begins:
    """Transactions.

    Attributes:
        at: positions of their first messages.
        lsn: where in the log each is committed.
        time: when, in microseconds since 1970.
        xid: 32-bit id of each.
    """

    at: Integers
    lsn: Integers
    time: Integers
    xid: Integers

    def of(self, index: int) -> list[int]:
        """What distinguishes a transaction from all others, also from those of a server that was set back."""
        return [int(self.lsn[index]), int(self.time[index]), int(self.xid[index])]


@dataclass
class Values:
    """Rows, as the places of their values among the bytes of messages.

    Attributes:
        bytes: the bytes that have the values.
        kinds: an array per column: whether the value is NULL, omitted or text.
        starts: an array per column: where the text begins.
        lengths: an array per column: bytes of the text; 0 if there is none.
    """

    bytes: Bytes
    kinds: list[Bytes] = field(default_factory=list)
    starts: list[Integers] = field(default_factory=list)
    lengths: list[Integers] = field(default_factory=list)

    def take(self, rows: Integers | Flags) -> Values:
        """Some of the rows."""
        kinds, starts = [part[rows] for part in self.kinds], [part[rows] for part in self.starts]
        return Values(self.bytes, kinds, starts, [part[rows] for part in self.lengths])

    def left_out(self, column: int) -> Flags:
        """In which rows the server omitted a large value, because the change did not touch it."""
        unchanged: Flags = self.kinds[column] == _UNCHANGED
        return unchanged

    def fill(self, column: int, old: Values, rows: Integers) -> None:
        """Takes values that were omitted from the old rows; row ``i`` of ``old`` belongs to ``rows[i]``."""
        is_missing = self.left_out(column)[rows]
        at = rows[is_missing]
        self.kinds[column][at] = old.kinds[column][is_missing]
        self.starts[column][at] = old.starts[column][is_missing]
        self.lengths[column][at] = old.lengths[column][is_missing]

    def text(self, column: int) -> pl.Series:
        """A column as text; NULL for what is NULL or was omitted.

        Raises:
            DataError: DATA440, text that is not UTF-8.
        """
        starts, lengths = self.starts[column], self.lengths[column]
        edges = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(lengths, out=edges[1:])
        places = np.repeat(starts - edges[:-1], lengths)
        places += np.arange(edges[-1])
        nulls = pa.array(self.kinds[column] == _TEXT).buffers()[1]
        buffers = [nulls, pa.py_buffer(edges), pa.py_buffer(self.bytes[places])]
        texts = pa.Array.from_buffers(pa.large_string(), len(starts), buffers)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _broken("text is not encoded in UTF-8") from error
        series = pl.from_arrow(texts)
        assert isinstance(series, pl.Series)
        return series


@dataclass(frozen=True)
class ChangeBatch:
    """The changes of one relation, of which its description stays the same.

    Attributes:
        relation: the table whose rows changed.
        at: position of each change among the messages, ascending.
        kinds: INSERT, UPDATE or DELETE.
        new: the new rows; one of each insertion and update.
        new_of: positions in ``at`` of their changes.
        old: the old rows, or the keys of them.
        old_of: positions in ``at`` of their changes.
        is_whole: whether each of ``old`` is a whole row.
    """

    relation: Relation
    at: Integers
    kinds: Bytes
    new: Values
    new_of: Integers
    old: Values
    old_of: Integers
    is_whole: Flags


def changes(messages: Messages) -> Iterator[ChangeBatch]:
    """The changes among messages, by relation. Those of a relation are in order; their positions put all in order.

    Raises:
        DataError: DATA440, messages that do not follow the protocol.
    """
    at = messages.positions_of(*CHANGES)
    oids = messages.integers(messages.starts[at] + 1, 4)
    relations: dict[int, list[tuple[int, Relation]]] = {}
    for index in messages.positions_of(RELATION):
        relation = Relation.of(messages.message(index))
        before = relations.setdefault(relation.oid, [])
        if not before or before[-1][1] != relation:
            before.append((int(index), relation))
    for oid in np.unique(oids):
        mine, versions = at[oids == oid], relations.get(int(oid), [])
        edges = [*np.searchsorted(mine, [index for index, _ in versions]).tolist(), len(mine)]
        if edges[0] != 0:
            raise _broken(f"changes of a table ({oid}) come before its description")
        for (_, relation), first, last in zip(versions, edges, edges[1:], strict=False):
            if first < last:
                yield _of_relation(messages, relation, mine[first:last])


def _of_relation(messages: Messages, relation: Relation, at: Integers) -> ChangeBatch:
    kinds, cursor, data = messages.kinds[at], messages.starts[at] + 5, messages.bytes
    ends = messages.ends[at]
    if bool((cursor >= ends).any()):
        raise _broken("a change is cut off")
    marks = data[cursor]
    has_old = (marks == _KEY) | (marks == _OLD)
    old_of = np.flatnonzero(has_old)
    old, after = _tuples(data, cursor[old_of] + 1, ends[old_of], len(relation.columns))
    cursor[old_of] = after
    new_of = np.flatnonzero(kinds != DELETE)
    if bool((cursor[new_of] >= ends[new_of]).any()) or bool((data[cursor[new_of]] != _NEW).any()):
        raise _broken("a change has no new row")
    new, after = _tuples(data, cursor[new_of] + 1, ends[new_of], len(relation.columns))
    cursor[new_of] = after
    if bool((cursor != ends).any()):
        raise _broken("a change is longer or shorter than its values")
    return ChangeBatch(relation, at, kinds, new, new_of, old, old_of, marks[old_of] == _OLD)


def _tuples(data: Bytes, cursor: Integers, ends: Integers, width: int) -> tuple[Values, Integers]:
    """The rows that begin at ``cursor``, and where they end."""
    values, last = Values(data), len(data) - 1
    counts = (data[np.minimum(cursor, last)].astype(np.int64) << 8) | data[np.minimum(cursor + 1, last)]
    if bool((counts != width).any()):
        raise _broken("a row has not as many values as its table has columns")
    cursor = cursor + 2
    for _ in range(width):
        if bool((cursor >= ends).any()):
            raise _broken("a row is cut off")
        kinds = data[cursor]
        text = kinds == _TEXT
        lengths = np.zeros(len(cursor), np.int64)
        at = cursor + 1
        for i in range(4):
            lengths = (lengths << 8) | data[np.minimum(at + i, last)]
        lengths = np.where(text, lengths, 0)
        if bool((~text & (kinds != _NULL) & (kinds != _UNCHANGED)).any()):
            raise _broken("a value is neither text nor NULL")
        values.kinds.append(kinds)
        values.starts.append(at + 4)
        values.lengths.append(lengths)
        cursor = at + np.where(text, lengths + 4, 0)
        if bool((cursor > ends).any()):
            raise _broken("a value is cut off")
    return values, cursor


# ---- the transactions that count -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Visible:
    """The transactions that a snapshot of the database has seen.

    Attributes:
        below: ids from here on had not begun (``xmax``).
        running_transactions: ids below it that had not ended.
    """

    below: int
    running_transactions: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Visible:
        """What ``pg_current_snapshot()`` says: ``xmin:xmax:running,running``."""
        _, below, running_text = text.split(":")
        return cls(int(below), frozenset(int(xid) for xid in running_text.split(",") if xid))

    def has(self, xids: Integers) -> Flags:
        """Whether the snapshot has seen the transactions of these 32-bit ids, which are at most 2^31 away."""
        away = ((xids - self.below) + (1 << 31)) % (1 << 32) - (1 << 31)
        ids = away + self.below
        return (away < 0) & ~np.isin(
            ids, np.fromiter(self.running_transactions, np.int64, len(self.running_transactions))
        )


class Transactions:
    """Keeps the messages of the transactions that count, of messages that come in pieces.

    Args:
        start: of transactions committed before it none counts; the place in the log.
        snapshot: transactions that do not count either, because a snapshot has their rows.
        until: the place in the log before which ``snapshot`` says so.
        tables: OIDs of the tables whose changes count; None for all.

    Attributes:
        end: where in the log the last transaction ends; None before the first.
        last: that transaction: place of its commit in the log, its time and its id; None before the first.
        last_passed: the last one that was committed before ``start``; None without one.
        rows: how many changes have been kept.
    """

    def __init__(
        self, start: int, snapshot: Visible | None = None, until: int = 0, tables: frozenset[int] | None = None
    ) -> None:
        self.start = start
        self.tables = tables
        self.snapshot = snapshot
        self.until = until
        self.end: int | None = None
        self.last: list[int] | None = None
        self.last_passed: list[int] | None = None
        self.rows = 0
        self._counts = False
        self._begin: bytes | None = None
        self._relations: dict[int, bytes] = {}

    def keep(self, array: pa.Array[Any]) -> list[bytes] | pa.Array[Any]:
        """The messages of the next piece that are needed to read its changes: those of transactions that count, and
        before them what an earlier piece said of the transaction and the relations.

        Raises:
            DataError: DATA440.
        """
        messages = Messages(array)
        begins, (commit_positions, ends) = messages.begins(), messages.commits()
        counts = begins.lsn >= self.start
        if self.snapshot is not None:
            counts &= ~(self.snapshot.has(begins.xid) & (begins.lsn < self.until))
        of = np.searchsorted(begins.at, np.arange(len(messages)), side="right")
        is_kept = np.concatenate([[self._counts], counts])[of]
        head = [*self._relations.values()]
        if self._counts and self._begin is not None:
            head.append(self._begin)
        for index in messages.positions_of(RELATION):
            text = messages.message(index)
            oid = int.from_bytes(text[1:5], "big")
            if self.tables is None or oid in self.tables:
                self._relations[oid] = text
                is_kept[index] = True
        is_change = np.isin(messages.kinds, (*CHANGES, TRUNCATE))
        if self.tables is not None:
            others = np.flatnonzero(is_change & (messages.kinds != TRUNCATE))
            oids = messages.integers(messages.starts[others] + 1, 4)
            is_kept[others] &= np.isin(oids, np.fromiter(self.tables, np.int64, len(self.tables)))
            for index in messages.positions_of(TRUNCATE):
                is_kept[index] &= not self.tables.isdisjoint(truncated_tables(messages.message(index)))
        is_change &= is_kept
        self.rows += int(is_change.sum())
        self._counts = bool(np.concatenate([[self._counts], counts])[-1])
        if len(begins.at):
            self._begin = messages.message(begins.at[-1])
            self.last = begins.of(-1)
            before = np.flatnonzero(begins.lsn < self.start)
            self.last_passed = begins.of(int(before[-1])) if len(before) else self.last_passed
        if len(commit_positions):
            self.end = int(ends[-1])
        if not is_change.any():
            return []
        kept_messages = array.filter(pa.array(is_kept))
        return pa.concat_arrays([pa.array(head, kept_messages.type), kept_messages]) if head else kept_messages


def change_times(messages: Messages, at: Sequence[int] | Integers) -> Integers:
    """When the transactions of some messages were committed, in microseconds since 1970."""
    begins = messages.begins()
    begin_positions = np.searchsorted(begins.at, at, side="right") - 1
    if bool((begin_positions < 0).any()):
        raise _broken("a change comes before its transaction")
    return begins.time[begin_positions] if len(begin_positions) else np.empty(0, np.int64)
