"""What two plans did to a table that has rows already, compared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from stateplan.execnodes.shadows import Side
from stateplan.plans.fork import Fork, PlanFigures, SinkDifference
from stateplan.runtime import shadows
from stateplan.runtime.shadows import ShadowRecord, TableChanges

Row = Mapping[str, object]
Event = tuple[str, Row]


def row(key: str, n: int) -> Row:
    return {"k": key, "n": n}


def frame(events: Sequence[Event], key: Sequence[str]) -> pl.DataFrame:
    """Changes as a sink keeps them."""
    columns = {"row": [json.dumps(r) for _, r in events], "added": [kind == "+" for kind, _ in events]}
    keys = {"key": [json.dumps([r[k] for k in key]) for _, r in events]} if key else {}
    return pl.DataFrame({**keys, **columns}, schema_overrides={"row": pl.String, "added": pl.Boolean})


def difference(old: Sequence[Event], new: Sequence[Event], key: Sequence[str] = ()) -> SinkDifference:
    sides: list[tuple[Side, pl.DataFrame]] = [("old", frame(old, key)), ("new", frame(new, key))]
    return SinkDifference.of("t", (True, True), TableChanges().and_then(sides))


def test_rows_that_were_there_before_are_retracted() -> None:
    """Both plans update the row of a; the old one deletes b, which was there, and the new one inserts c twice."""
    update = [("-", row("a", 1)), ("+", row("a", 2))]
    found = difference(
        [*update, ("-", row("b", 1))],
        [*update, ("+", row("c", 1)), ("+", row("c", 1)), ("+", row("a", 2))],
    )
    assert found.counts == (3, 5) and found.equal == 2
    assert (found.only_old, found.old_examples) == (1, (("-D", json.dumps(row("b", 1))),))
    assert found.new_examples == (("+I", json.dumps(row("a", 2))), ("+I", json.dumps(row("c", 1))))
    assert (found.different, found.only_new, found.total) == (0, 3, 4)


def test_the_last_change_of_a_key_counts() -> None:
    old = [("+", row("a", 1)), ("+", row("a", 2)), ("+", row("b", 1)), ("-", row("c", 7)), ("-", row("d", 1))]
    new = [("+", row("a", 3)), ("+", row("b", 1)), ("-", row("c", 8)), ("+", row("d", 2)), ("+", row("e", 1))]
    found = difference(old, new, ["k"])
    assert found.pairs == ((json.dumps(row("a", 2)), json.dumps(row("a", 3))),), "c is gone either way"
    assert (found.equal, found.different) == (2, 1)
    assert (found.only_old, found.old_examples) == (1, (("-D", json.dumps(row("d", 1))),))
    assert found.only_new == 2
    assert found.new_examples == (("+I", json.dumps(row("d", 2))), ("+I", json.dumps(row("e", 1))))


def excess(changes: TableChanges) -> dict[str, int]:
    """How often more a row is in the table of the old plan."""
    assert changes.rows is not None
    return {row: old - new for row, old, new in changes.rows.select("row", "old", "new").rows() if old != new}


@pytest.mark.parametrize("key", [(), ("k",)])
def test_folded_files_say_what_all_files_say(key: Sequence[str], tmp_path: Path) -> None:
    """Also where a micro-batch runs again, and a kill has left files that were folded."""
    record, whole = ShadowRecord(tmp_path / "record"), TableChanges()
    for epoch in range(200):
        old, new = row("abc"[epoch % 3], epoch // 9), row("abcd"[epoch % 4], epoch // 9)
        kind = "-" if epoch % 7 == 0 else "+"
        parts: list[tuple[Side, pl.DataFrame]] = [
            ("old", frame([(kind, old)], key)),
            ("new", frame([(kind, new)], key)),
        ]
        for attempt in range(2 if epoch % 50 == 49 else 1):
            left = {path: path.read_bytes() for path in record.folder.glob("*.arrow")} if attempt else {}
            record.fold(epoch)
            for path, content in left.items():
                path.write_bytes(content)
            for side, changes in parts:
                record.add(side, epoch, changes)
        whole = whole.and_then(parts)
        assert len(list(record.folder.iterdir())) < 3 * shadows.FILES
    assert any(record.folder.glob("folded-*"))
    found = record.read()
    assert found.counts == whole.counts == (200, 200)
    if key:
        assert SinkDifference.of("t", (True, True), found) == SinkDifference.of("t", (True, True), whole)
    else:  # a row that only one plan has inserted is as one that only the other one has deleted
        assert excess(found) == excess(whole) != {}


def test_a_comparison_of_too_many_rows_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "MOST_BYTES", 1000)
    record = ShadowRecord(tmp_path)
    for epoch in range(shadows.FILES + 1):
        record.fold(epoch)
        record.add("old", epoch, frame([("+", row(f"{epoch}", 1))], ()))
    found = SinkDifference.of("t", (True, True), record.read())
    assert found.end == shadows.FILES - 1 and found.total == 0
    assert list(found.to_text()) == ["t: too many rows differ; the comparison ended with micro-batch 63"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000


def test_the_report() -> None:
    both = difference([("+", row("a", 1))], [("+", row("a", 2))], ["k"])
    added = SinkDifference.of(
        "more", (False, True), TableChanges().and_then([("new", frame([("+", row("x", 1))], ()))])
    )
    same = SinkDifference.of("same", (True, True), TableChanges())
    figures = PlanFigures(1200, 30, 2048, 100, (2.0, 9.0, 4.0))
    fork = Fork("ck", 7, (20.0, 30.0), {"old": figures, "new": figures}, (both, added, same))
    lines = fork.to_text().splitlines()
    assert lines[0] == "from ck, as after micro-batch 7: 2 micro-batches of 25 ms, at most 30 ms"
    cells = ["the old plan", "1,200", "1", "30", "2.0 KiB", "100 B", "4 ms, at most 9 ms"]
    assert re.split(" {2,}", lines[3]) == cells
    assert lines[6:] == [
        "t: 1 row differs, 0 equal",
        '  different  {"k": "a", "n": 1}  became  {"k": "a", "n": 2}',
        "",
        "more: 1 row, only of the new plan",
        '  only new   +I {"k": "x", "n": 1}',
        "",
        "same: 0 rows differ, 0 equal",
        "",
        "an operator that both plans have runs once, and counts for both",
    ]
    data = json.loads(json.dumps(fork.to_json()))
    assert data["sinks"][0]["examples"]["different"] == [{"old": {"k": "a", "n": 1}, "new": {"k": "a", "n": 2}}]
    assert data["sinks"][1]["changes"] == {"old": None, "new": 1}
    empty = Fork("ck", 7, (), {"old": PlanFigures(0, 0, 0, 0, ())}, ())
    assert empty.to_text().splitlines()[0] == "from ck, as after micro-batch 7: no new input"
