"""FROM_CHANGELOG and TO_CHANGELOG undo each other, and say what they cannot read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import RowKind
from stateplan.common.errors import DataError
from stateplan.runtime.kernels.changelog_functions import FromChangelogTransform, ToChangelogTransform
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Row
from tests.runtime.kernels.support import anything, changes_of, frame, row_of

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1]), st.sampled_from([None, "a", "b"]), st.sampled_from([None, 0, 1])
)
NAMES = {kind: kind.name for kind in RowKind}
CODES = {name: kind for kind, name in NAMES.items()}


def test_kinds_become_a_column_and_a_column_becomes_kinds() -> None:
    changes = [(INSERT, (1, "a", 0)), (UPDATE_BEFORE, (1, "a", 0)), (UPDATE_AFTER, (1, "a", 1)), (DELETE, (1, "a", 1))]
    rows = ToChangelogTransform(3, NAMES)(frame(ROW, changes), 0)
    assert rows.rows() == [
        ("INSERT", 1, "a", 0),
        ("UPDATE_BEFORE", 1, "a", 0),
        ("UPDATE_AFTER", 1, "a", 1),
        ("DELETE", 1, "a", 1),
    ]
    assert changes_of(FromChangelogTransform(0, 4, CODES)(rows, 0)) == changes


@given(anything(ROWS, 30))
def test_back_to_the_changes(changes) -> None:
    rows = ToChangelogTransform(3, NAMES)(frame(ROW, changes), 0)
    assert [row[0] for row in rows.rows()] == [RowKind(kind).name for kind, _ in changes]
    assert [row[1:] for row in rows.rows()] == [row for _, row in changes]
    assert changes_of(FromChangelogTransform(0, 4, CODES)(rows, 0)) == changes


@given(anything(ROWS, 30), st.sets(st.sampled_from(list(RowKind))))
def test_kinds_without_a_code_are_left_out(changes, kinds) -> None:
    rows = ToChangelogTransform(3, {k: k.short for k in kinds})(frame(ROW, changes), 0)
    expected = [(RowKind(kind).short, *row) for kind, row in changes if RowKind(kind) in kinds]
    assert rows.rows() == expected


def test_the_column_may_stand_anywhere_and_codes_may_be_many() -> None:
    given = frame(row_of("ss"), [(0, ("x", "c")), (0, ("y", "r")), (0, ("z", "d"))])
    out = FromChangelogTransform(1, 2, {"c": RowKind.INSERT, "r": RowKind.INSERT, "d": RowKind.DELETE})(given, 0)
    assert changes_of(out) == [(0, ("x",)), (0, ("y",)), (3, ("z",))]


@pytest.mark.parametrize("code", [None, "e"])
def test_codes_that_mean_nothing(code: str | None) -> None:
    given = frame(row_of("ss"), [(0, ("x", "c")), (0, ("y", code))])
    with pytest.raises(DataError) as error:
        FromChangelogTransform(1, 2, {"c": RowKind.INSERT})(given, 0)
    assert error.value.code == "DATA321" and error.value.expected == "one of 'c'"
