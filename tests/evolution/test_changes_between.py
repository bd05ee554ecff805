"""The changes that make of the rows of one changelog those of another one."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.evolution.corrections import corrections

INSERT, BEFORE, AFTER, DELETE = range(4)
Change = tuple[int, int | None, str | None]


def frame(changes: list[Change]) -> pl.DataFrame | None:
    schema = {"kind": pl.Int8, "c0": pl.Int64, "c1": pl.String}
    return pl.DataFrame(changes, schema, orient="row") if changes else None


def changes_in(found: pl.DataFrame | None) -> list[Change]:
    if found is None:
        return []
    found = found if "kind" in found.columns else found.with_columns(pl.lit(INSERT).alias("kind"))
    return found.select("kind", "c0", "c1").rows()


def rows_after(*changelogs: list[Change]) -> Counter[tuple[int | None, str | None]]:
    """The rows that are left, one by one."""
    rows: Counter[tuple[int | None, str | None]] = Counter()
    for kind, *row in (change for changes in changelogs for change in changes):
        rows[row[0], row[1]] += 1 if kind in (INSERT, AFTER) else -1
    assert all(n >= 0 for n in rows.values()), "a row was deleted that was not there"
    return Counter({row: n for row, n in rows.items() if n})


def by_key_after(*changelogs: list[Change]) -> dict[int | None, str | None]:
    """The rows that are left of upserts by the first column, one by one."""
    rows: dict[int | None, str | None] = {}
    for kind, key, value in (change for changes in changelogs for change in changes):
        if kind in (INSERT, AFTER):
            rows[key] = value
        elif kind == DELETE:
            rows.pop(key)
    return rows


def test_rows_with_a_key_are_updated() -> None:
    old: list[Change] = [(INSERT, 1, "a"), (INSERT, 2, "b"), (AFTER, 2, "c"), (INSERT, 3, "d")]
    new: list[Change] = [(INSERT, 1, "a"), (INSERT, 2, "x"), (INSERT, 4, "y")]
    found = changes_in(corrections(frame(old), frame(new), ["c0"], update_before=True))
    assert sorted(found) == [(INSERT, 4, "y"), (BEFORE, 2, "c"), (AFTER, 2, "x"), (DELETE, 3, "d")]
    assert found.index((BEFORE, 2, "c")) + 1 == found.index((AFTER, 2, "x"))
    without = changes_in(corrections(frame(old), frame(new), ["c0"], update_before=False))
    assert sorted(without) == [(INSERT, 4, "y"), (AFTER, 2, "x"), (DELETE, 3, "d")]


def test_rows_without_a_key_are_deleted_and_inserted() -> None:
    old: list[Change] = [(INSERT, 1, "a"), (INSERT, 1, "a"), (INSERT, 2, None)]
    new: list[Change] = [(INSERT, 1, "a"), (INSERT, 3, "c")]
    found = changes_in(corrections(frame(old), frame(new), [], update_before=True))
    assert sorted(found, key=str) == sorted([(DELETE, 1, "a"), (DELETE, 2, None), (INSERT, 3, "c")], key=str)


def test_a_table_without_earlier_rows_gets_insertions_alone() -> None:
    found = corrections(None, frame([(INSERT, 1, "a"), (BEFORE, 1, "a"), (AFTER, 1, "b")]), [], update_before=True)
    assert found is not None and found.columns == ["c0", "c1"] and found.rows() == [(1, "b")]
    assert corrections(None, None, [], update_before=True) is None


VALUES = st.sampled_from(["x", "y", None])
KEYS = st.sampled_from([1, 2, 3, None])


@st.composite
def retractions(draw: st.DrawFn) -> list[Change]:
    """Insertions and deletions of rows that are there."""
    changes: list[Change] = []
    held: list[tuple[int | None, str | None]] = []
    for _ in range(draw(st.integers(0, 12))):
        if held and draw(st.booleans()):
            row = held.pop(draw(st.integers(0, len(held) - 1)))
            changes.append((draw(st.sampled_from([BEFORE, DELETE])), *row))
        else:
            row = (draw(KEYS), draw(VALUES))
            held.append(row)
            changes.append((draw(st.sampled_from([INSERT, AFTER])), *row))
    return changes


@st.composite
def upserts(draw: st.DrawFn) -> list[Change]:
    """Insertions, updates and deletions by key."""
    changes: list[Change] = []
    held: dict[int | None, str | None] = {}
    for _ in range(draw(st.integers(0, 12))):
        key = draw(KEYS)
        if key in held and draw(st.booleans()):
            changes.append((DELETE, key, held.pop(key)))
        else:
            kind, held[key] = AFTER if key in held else INSERT, draw(VALUES)
            changes.append((kind, key, held[key]))
    return changes


@given(retractions(), retractions())
def test_after_corrections_the_rows_are_those_of_the_other_changelog(old: list[Change], new: list[Change]) -> None:
    found = changes_in(corrections(frame(old), frame(new), [], update_before=True))
    assert rows_after(old, found) == rows_after(new)
    assert len(found) == sum(((rows_after(old) - rows_after(new)) + (rows_after(new) - rows_after(old))).values())


@given(upserts(), upserts())
def test_after_corrections_the_rows_by_key_are_those_of_the_other_changelog(
    old: list[Change], new: list[Change]
) -> None:
    found = changes_in(corrections(frame(old), frame(new), ["c0"], update_before=False))
    assert by_key_after(old, found) == by_key_after(new)
    assert len({key for _, key, _ in found}) == len(found), "one change a row"
