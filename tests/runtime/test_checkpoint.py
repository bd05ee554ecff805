"""The checkpoint directory: what a start finds in it, what it leaves, and what is refused as damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.runtime.checkpoint.directory import Continuation
from tests.runtime.state_jobs import JOB, job, start


def facts(folder: Path) -> dict:
    return json.loads((folder / "stateplan.json").read_text())


def commit(folder: Path, batch: int) -> None:
    (folder / "spark" / "commits").mkdir(parents=True, exist_ok=True)
    (folder / "spark" / "commits" / str(batch)).write_text("")


def test_a_plan_is_adopted_with_its_layout(tmp_path: Path) -> None:
    first = start(tmp_path / "c")
    assert not first.resumed
    assert (tmp_path / "c" / "plan.json").read_text() == "one"
    commit(tmp_path / "c", 0)
    again = start(tmp_path / "c")
    assert again.resumed
    assert again.layout is not None
    assert again.layout.operators == first.layout.operators  # type: ignore[union-attr]
    commit(tmp_path / "c", 1)
    other = start(tmp_path / "c", "two", job((1, 1)))
    assert [(d.first, d.since) for d in other.layout.dropped] == [(4, 2)]  # type: ignore[union-attr]
    assert (tmp_path / "c" / "plan.json").read_text() == "two"
    assert [len(x["operators"]) for x in facts(tmp_path / "c")["layouts"]] == [1, 2]


def test_a_start_that_fails_leaves_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder)
    commit(folder, 0)
    before = facts(folder)
    start(folder, "two", job((1, 1)), adopt=False)
    assert facts(folder) == before
    assert (folder / "plan.json").read_text() == "one"


def test_of_two_writes_that_were_cut_off_the_old_plan_has_its_layout(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    first = start(folder)
    commit(folder, 0)
    start(folder, "two", job((1, 1)))
    (folder / "plan.json").write_text("one")
    again = start(folder)
    assert again.layout is not None
    assert again.layout.operators == first.layout.operators  # type: ignore[union-attr]


def test_a_first_start_that_failed_leaves_room_for_another_plan(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder, adopt=False)
    assert start(folder, "another", job((5, 3))).layout.levels == 3  # type: ignore[union-attr]


def refuse(_: str) -> Continuation:
    raise CheckpointError("CKPT023", name="t", folder="c", changes="topic: a -> b", before="topic a")


def test_before_the_first_micro_batch_another_plan_may_read_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder)
    for prepared in (folder / "splits" / "orders", folder / "spark" / "sources" / "0"):
        prepared.mkdir(parents=True)
    again = start(folder, "two", job((5, 3)), check=refuse)
    assert again.layout is not None
    assert again.layout.levels == 3
    assert not (folder / "splits").exists()
    assert not (folder / "spark" / "sources").exists()
    assert (folder / "plan.json").read_text() == "two"


@pytest.mark.parametrize("there", ["offsets", "commits", "state"])
def test_after_it_another_plan_may_not(there: str, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder)
    (folder / "spark" / there).mkdir(parents=True)
    (folder / "spark" / there / "0").write_text("v1\n{}\n")
    with pytest.raises(CheckpointError) as raised:
        start(folder, "two", check=refuse)
    assert raised.value.code == "CKPT023"


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ({"format": 4}, "CKPT005"),
        ({"layouts": 5}, "CKPT005"),
        ({"layouts": [5]}, "CKPT005"),
        ({"layouts": [{}]}, "CKPT005"),
        ({"layouts": []}, None),
        ({"keyGroups": "x"}, "CKPT005"),
        ({"keyGroups": 5}, "CKPT004"),
    ],
)
def test_damaged_facts(damage: dict, code: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder)
    (folder / "stateplan.json").write_text(json.dumps({**facts(folder), **damage}))
    if code is None:
        assert start(folder).resumed
        return
    with pytest.raises(CheckpointError) as raised:
        start(folder)
    assert raised.value.code == code


@pytest.mark.parametrize("key", ["operators", "sources", "sinks", "dropped", "levels", "plan"])
@pytest.mark.parametrize("value", [None, 7, "x", [7], [{}]])
def test_damaged_layouts(key: str, value: object, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder)
    data = facts(folder)
    data["layouts"][0][key] = value
    (folder / "stateplan.json").write_text(json.dumps(data))
    if (key, value) == ("levels", 7):
        assert start(folder).layout.levels == 7  # type: ignore[union-attr]
        return
    with pytest.raises(CheckpointError) as raised:
        start(folder)
    assert raised.value.code == "CKPT005"


@pytest.mark.parametrize("text", [None, "three"])
def test_a_plan_that_is_not_that_of_the_state(text: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder)
    (folder / "plan.json").unlink()
    if text is not None:
        (folder / "plan.json").write_text(text)
    with pytest.raises(CheckpointError) as raised:
        start(folder)
    assert raised.value.code == "CKPT005"


def test_state_that_is_missing_is_not_taken_for_empty(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    start(folder, job_=job((2, 1)))
    commit(folder, 0)
    with pytest.raises(CheckpointError) as raised:
        start(folder, "two", replace(JOB))
    assert raised.value.code == "CKPT024"
