"""What two plans did to a table that has rows already, compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stateplan.plans.fork import Fork, PlanFigures, SinkChanges, SinkDifference

Row = Mapping[str, object]
Event = tuple[Row | None, Row | None]


def row(key: str, n: int) -> Row:
    return {"k": key, "n": n}


def changes(folder: Path, name: str, events: Sequence[Event], key: Sequence[str]) -> SinkChanges:
    (folder / name).mkdir()
    lines = (json.dumps({"before": before, "after": after}) + "\n" for before, after in events)
    (folder / name / "part-0").write_text("".join(lines))
    return SinkChanges.read(folder / name, key)


def difference(folder: Path, old: Sequence[Event], new: Sequence[Event], key: Sequence[str] = ()) -> SinkDifference:
    return SinkDifference.of("t", changes(folder, "old", old, key), changes(folder, "new", new, key))


def test_rows_that_were_there_before_are_retracted(tmp_path: Path) -> None:
    """Both plans update the row of a; the old one deletes b, which was there, and the new one inserts c twice."""
    update = [(row("a", 1), None), (None, row("a", 2))]
    found = difference(
        tmp_path,
        [*update, (row("b", 1), None)],
        [*update, (None, row("c", 1)), (None, row("c", 1)), (None, row("a", 2))],
    )
    assert found.counts == (3, 5)
    assert found.only_old == Counter({("-D", json.dumps(row("b", 1))): 1})
    assert found.only_new == Counter({("+I", json.dumps(row("c", 1))): 2, ("+I", json.dumps(row("a", 2))): 1})
    assert (found.different, found.total) == ((), 4)


def test_the_last_change_of_a_key_counts(tmp_path: Path) -> None:
    old = [
        (None, row("a", 1)),
        (row("a", 1), row("a", 2)),
        (None, row("b", 1)),
        (row("c", 7), None),
        (row("d", 1), None),
    ]
    new = [(None, row("a", 3)), (None, row("b", 1)), (row("c", 8), None), (None, row("d", 2)), (None, row("e", 1))]
    found = difference(tmp_path, old, new, ["k"])
    assert found.different == ((json.dumps(row("a", 2)), json.dumps(row("a", 3))),), "c is gone either way"
    assert found.only_old == Counter([("-D", json.dumps(row("d", 1)))])
    assert found.only_new == Counter([("+I", json.dumps(row("d", 2))), ("+I", json.dumps(row("e", 1)))])


def test_the_report(tmp_path: Path) -> None:
    both = difference(tmp_path, [(None, row("a", 1))], [(None, row("a", 2))], ["k"])
    added = SinkDifference.of("more", None, changes(tmp_path, "more", [(None, row("x", 1))], ()))
    same = SinkDifference.of("same", SinkChanges(), SinkChanges())
    figures = PlanFigures(1200, 30, 2048, 100, (2.0, 9.0, 4.0))
    fork = Fork("ck", 7, (20.0, 30.0), {"old": figures, "new": figures}, (both, added, same))
    lines = fork.to_text().splitlines()
    assert lines[0] == "from ck, as after micro-batch 7: 2 micro-batches of 25 ms, at most 30 ms"
    cells = ["the old plan", "1,200", "1", "30", "2.0 KiB", "100 B", "4 ms, at most 9 ms"]
    assert re.split(" {2,}", lines[3]) == cells
    assert lines[6:] == [
        "t: 1 row differs",
        '  different  {"k": "a", "n": 1}  became  {"k": "a", "n": 2}',
        "",
        "more: 1 row, only of the new plan",
        '  only new   +I {"k": "x", "n": 1}',
        "",
        "same: 0 rows differ",
        "",
        "an operator that both plans have runs once, and counts for both",
    ]
    data = json.loads(json.dumps(fork.to_json()))
    assert data["sinks"][0]["examples"]["different"] == [{"old": {"k": "a", "n": 1}, "new": {"k": "a", "n": 2}}]
    assert data["sinks"][1]["changes"] == {"old": None, "new": 1}
    empty = Fork("ck", 7, (), {"old": PlanFigures(0, 0, 0, 0, ())}, ())
    assert empty.to_text().splitlines()[0] == "from ck, as after micro-batch 7: no new input"
