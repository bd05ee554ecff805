"""Compares what a test expects with what has happened, and says what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.testing.rows import Change, Fields
from stateplan.testing.story import Block, Expect


@dataclass(frozen=True)
class Difference:
    """Rows that differ.

    Attributes:
        columns: their columns.
        missing_rows: that are expected and were not there.
        extra: that were there and are not expected.
        same: that are both.
        has_kinds: whether kinds of changes matter.
        order: whether only their order differs.
    """

    columns: tuple[str, ...]
    missing_rows: tuple[Change, ...]
    extra: tuple[Change, ...]
    same: tuple[Change, ...] = ()
    has_kinds: bool = True
    order: bool = False


@dataclass
class Verdict:
    """What became of an expectation.

    Attributes:
        expect: the expectation.
        holds: whether it holds.
        message: what is wrong, in a line; empty if it holds.
        difference: the rows that differ, if it is about rows.
        actual: the lines that would replace those of the expectation in the file; None if they stay.
        why: what is known of the reason, a line each.
    """

    expect: Expect
    holds: bool
    message: str = ""
    difference: Difference | None = None
    actual: list[str] | None = None
    why: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Actual:
    """The rows that an expectation is compared with.

    Attributes:
        fields: the columns of the table.
        changes: the rows.
        file: the test file, for errors.
        table: the name of the table.
        has_updates: whether an update has a kind of its own. Without, insertions and deletions of the same row cancel
            out: the engine emits each change, and not those of a micro-batch.
        key: without updates, the columns by which a change replaces a row; then only the last one of a key counts.
    """

    fields: Fields
    changes: list[Change]
    file: str
    table: str
    has_updates: bool = True
    key: tuple[str, ...] = ()


def check_rows(expect: Expect, actual: Actual, expected: list[Change] | None = None) -> Verdict:
    """Compares rows. ``expected`` are those of a block of VALUES. Raises StateplanError TEST002."""
    block = expect.block
    assert block is not None
    columns = block.columns or actual.fields.names
    has_kinds = expect.subject == "changelog"
    if expected is None:
        expected = actual.fields.expected(block, actual.file, actual.table)
    places = [actual.fields.names.index(name) for name in columns]
    rows = [Change(c.kind, tuple(c.cells[i] for i in places)) for c in actual.changes]
    if expect.subject == "table":
        expected, rows = _plain(expected), _plain(rows)
    elif not actual.has_updates:
        key = [list(columns).index(name) for name in actual.key if name in columns]
        expected, rows = _net(expected, key), _net(rows, key)
    want, have = Counter(expected), Counter(rows)
    is_equal = expected == rows if expect.in_order else want == have
    if is_equal:
        return Verdict(expect, True)
    kinds = has_kinds or any(c.kind != "+I" for c in rows)
    missing_rows, extra = _rest(expected, have), _rest(rows, want)
    same = tuple((want & have).elements())
    order = not missing_rows and not extra
    return Verdict(
        expect,
        False,
        _message(len(missing_rows), len(extra)) if not order else "the rows are in another order",
        Difference(tuple(columns), tuple(missing_rows), tuple(extra), tuple(rows) if order else same, kinds, order),
        block_lines(block, columns, rows, kinds),
    )


def _net(changes: Sequence[Change], key: Sequence[int]) -> list[Change]:
    """Insertions and deletions, without those that cancel out; by a key, the last change of each."""
    if key:
        last = {tuple(change.cells[i] for i in key): change for change in changes}
        return [Change("+I" if change.kind[0] == "+" else "-D", change.cells) for change in last.values()]
    counts: Counter[tuple[str | None, ...]] = Counter()
    for change in changes:
        counts[change.cells] += 1 if change.kind[0] == "+" else -1
    return [Change("+I" if n > 0 else "-D", cells) for cells, n in counts.items() for _ in range(abs(n))]


def _plain(changes: Sequence[Change]) -> list[Change]:
    return [Change("+I", c.cells) for c in changes]


def _rest(changes: Sequence[Change], others: Counter[Change]) -> list[Change]:
    """The changes that are not among others, in order."""
    left = Counter(others)
    out = []
    for change in changes:
        if left[change] > 0:
            left[change] -= 1
        else:
            out.append(change)
    return out


def _message(missing_rows: int, extra: int) -> str:
    parts = [f"{amount(missing_rows, 'row')} missing"] if missing_rows else []
    parts += [f"{amount(extra, 'row')} not expected"] if extra else []
    return ", ".join(parts)


def block_lines(block: Block, columns: Sequence[str], changes: Sequence[Change], has_kinds: bool) -> list[str]:
    """Rows as lines of a test file, with the indentation of a block."""
    if not changes:
        return []
    lines = table_lines(columns, changes, has_kinds)
    return [f"--{block.indent}{line}" for line in lines]


def table_lines(columns: Sequence[str], changes: Sequence[Change], has_kinds: bool) -> list[str]:
    """A header and rows, with aligned bars."""
    cells = [list(columns), *([_cell(c) for c in change.cells] for change in changes)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    kinds = ["  ", *(change.kind for change in changes)]
    out = []
    for kind, row in zip(kinds, cells, strict=True):
        body = " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        out.append(f"{kind} | {body} |" if has_kinds else f"| {body} |")
    return out


def _cell(text: str | None) -> str:
    return "NULL" if text is None else text.replace("|", "\\|")


def difference_lines(difference: Difference) -> list[str]:
    """What differs, as ``diff`` shows it: ``-`` is expected, ``+`` has happened."""
    changes = [*difference.missing_rows, *difference.extra, *difference.same]
    signs = ["-"] * len(difference.missing_rows) + ["+"] * len(difference.extra) + [" "] * len(difference.same)
    header, *lines = table_lines(difference.columns, changes, difference.has_kinds)
    return [f"  {header}", *(f"{sign} {line}" for sign, line in zip(signs, lines, strict=True))]
