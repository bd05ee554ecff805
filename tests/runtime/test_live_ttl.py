"""The record of TTLs in a checkpoint: which micro-batch sees which, whatever fails in between."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.common.ttl import TtlConfig, UpdateType
from stateplan.runtime.batch_ttls import with_ttls
from stateplan.runtime.checkpoint.live_ttl import LiveTtls, TtlRequest, editing, read_ttls
from stateplan.runtime.checkpoint.locks import locked
from stateplan.runtime.jobgraph import JobGraph
from tests.runtime.state_jobs import job

PLAN = 1000


def planned(*ttls: int, node: int = 1) -> JobGraph:
    """A job of one operator with states that live so long."""
    graph = job((node, 1))
    configs = tuple(TtlConfig(ttl, UpdateType.ON_READ_AND_WRITE) for ttl in ttls)
    return replace(graph, operators=(replace(graph.operators[0], ttl=configs),))


def start(
    folder: Path, *ttls: int, tried: int = -1, came: dict[str, str] | None = None, said: list[str] | None = None
) -> LiveTtls:
    """A run of a plan with these TTLs, after one that tried micro-batches up to ``tried``."""
    live = LiveTtls(folder, planned(*ttls).operators, tried, ([] if said is None else said).append)
    live.begin({"u1": "u1"} if came is None else came, {})
    live.settle()
    return live


def ask(folder: Path, ttl: int, index: int = 0) -> None:
    with editing(folder) as record:
        record["u1", index] = replace(record["u1", index], asked=TtlRequest(ttl, 7))


def ttls(live: LiveTtls, text: str | None) -> tuple[int, ...] | None:
    """What workers see that were told ``text``; None when they are told nothing new."""
    if text is None:
        return None
    graph = job((1, 1))
    graph = replace(graph, operators=tuple(live.operators))
    return tuple(config.ttl for config in (with_ttls(graph, text) if text else graph).operators[0].ttl)


def test_a_request_holds_from_the_next_micro_batch_on(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN, PLAN)
    assert live.take_in(0) is None
    ask(tmp_path, 5)
    assert ttls(live, live.take_in(1)) == (5, PLAN)
    state = read_ttls(tmp_path)["u1", 0]
    assert [(s.ttl, s.since, s.by) for s in state.settings] == [(PLAN, 0, "plan"), (5, 1, "live")]
    assert state.asked is None
    assert live.take_in(2) is None, "nothing new"
    ask(tmp_path, PLAN)
    assert live.take_in(3) == "", "the plan's again"


def test_only_how_long_is_set(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN)
    ask(tmp_path, 0)
    graph = replace(job((1, 1)), operators=tuple(live.operators))
    assert with_ttls(graph, live.take_in(0) or "").operators[0].ttl == (TtlConfig(0, UpdateType.ON_READ_AND_WRITE),)


def test_a_repeated_micro_batch_sees_what_it_saw(tmp_path: Path) -> None:
    first = start(tmp_path, PLAN)
    assert first.take_in(0) is None
    ask(tmp_path, 5)
    assert ttls(first, first.take_in(1)) == (5,)
    # micro-batch 1 fails; before it is repeated, somebody asks for more
    ask(tmp_path, 9)
    again = start(tmp_path, PLAN, tried=1)
    assert ttls(again, again.take_in(1)) == (5,)
    assert read_ttls(tmp_path)["u1", 0].asked is not None
    assert ttls(again, again.take_in(2)) == (9,)


def test_a_micro_batch_that_was_tried_before_a_request_is_repeated_without_it(tmp_path: Path) -> None:
    start(tmp_path, PLAN).take_in(0)
    ask(tmp_path, 5)
    again = start(tmp_path, PLAN, tried=0)
    assert again.take_in(0) is None
    assert ttls(again, again.take_in(1)) == (5,)


def test_a_repeated_micro_batch_does_not_see_an_edit_of_the_plan(tmp_path: Path) -> None:
    start(tmp_path, PLAN).take_in(0)
    again = start(tmp_path, 5, tried=0)
    assert ttls(again, again.take_in(0)) == (PLAN,)
    assert again.take_in(1) == "", "the plan holds"


def test_the_same_plan_keeps_what_was_set_live(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN)
    ask(tmp_path, 5)
    live.take_in(0)
    said: list[str] = []
    again = start(tmp_path, PLAN, tried=0, said=said)
    assert ttls(again, again.take_in(1)) == (5,)
    assert said == [
        "op[1].0: ttl 5 ms, set live in micro-batch 0; the plan has ttl 1 s (to change the plan: stateplan "
        "plan set-ttl PLAN 'op[1].0=5 ms')"
    ]


def test_a_plan_that_is_edited_later_wins(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN)
    ask(tmp_path, 5)
    live.take_in(0)
    said: list[str] = []
    edited = start(tmp_path, 3000, tried=0, said=said)
    assert ttls(edited, edited.take_in(0)) == (5,), "repeated"
    assert edited.take_in(1) == ""
    assert said == ["op[1].0: ttl 3 s, from the edited plan; it replaces ttl 5 ms, which was set live"]
    assert [(s.ttl, s.since) for s in read_ttls(tmp_path)["u1", 0].settings] == [(5, 0), (3000, 1)]
    back: list[str] = []
    assert start(tmp_path, PLAN, tried=1, said=back).take_in(2) is None
    assert back == [], "an edit back is an edit"


def test_a_plan_that_says_what_was_set_live_is_no_news(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN)
    ask(tmp_path, 5)
    live.take_in(0)
    said: list[str] = []
    assert start(tmp_path, 5, tried=0, said=said).take_in(1) is None
    assert said == []
    assert not read_ttls(tmp_path)["u1", 0].is_live


def test_a_request_to_a_stopped_job_waits_for_its_next_run(tmp_path: Path) -> None:
    start(tmp_path, PLAN).take_in(0)
    ask(tmp_path, 5)
    said: list[str] = []
    again = start(tmp_path, PLAN, tried=0, said=said)
    assert said == ["op[1].0: ttl 5 ms from the next micro-batch on, as requested"]
    assert ttls(again, again.take_in(1)) == (5,)


def test_what_was_set_goes_with_the_state_of_an_operator(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN)
    ask(tmp_path, 5)
    live.take_in(0)
    graph = planned(PLAN)
    renamed = (replace(graph.operators[0], uid="u2"),)
    moved = LiveTtls(tmp_path, renamed, 0, [].append)
    moved.begin({"u2": "u1"}, {})
    assert set(read_ttls(tmp_path)) == {("u1", 0), ("u2", 0)}, "the plan before may still be started"
    moved.settle()
    assert set(read_ttls(tmp_path)) == {("u2", 0)}
    assert ttls(moved, moved.take_in(1)) == (5,)
    empty = LiveTtls(tmp_path, planned(PLAN).operators, 1, [].append)
    empty.begin({}, {})
    assert empty.take_in(2) is None, "an operator that starts empty starts with its plan"


def test_a_new_query_of_the_job_is_told_again(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN)
    ask(tmp_path, 5)
    assert live.take_in(0) is not None
    live.restart()
    assert ttls(live, live.take_in(1)) == (5,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("[]", "list indices"),
        ('{"format": 1}', "'states' is missing"),
        ('{"format": 2, "states": []}', "it has format 2"),
        ('{"format": 1, "states": [{"uid": "a", "index": 1}]}', "0.name: Field required"),
        (
            '{"format": 1, "states": [{"uid": "a", "index": -1, "name": "n", "plan": 0, "settings": [], '
            '"asked": null}]}',
            "0.index: Input should be greater",
        ),
    ],
)
def test_a_damaged_record_keeps_a_job_from_starting_and_not_from_going_on(text: str, why: str, tmp_path: Path) -> None:
    said: list[str] = []
    live = start(tmp_path, PLAN, said=said)
    ask(tmp_path, 5)
    assert ttls(live, live.take_in(0)) == (5,)
    said.clear()
    (tmp_path / "ttl.json").write_text(text)
    assert [live.take_in(1), live.take_in(2)] == [None, None]
    assert len(said) == 1
    assert why in said[0]
    with pytest.raises(CheckpointError) as error:
        start(tmp_path, PLAN, tried=2)
    assert error.value.code == "CKPT031"
    (tmp_path / "ttl.json").unlink()
    assert live.take_in(3) is None
    assert read_ttls(tmp_path)["u1", 0].now == 5, "a record that is gone is written anew"


def test_while_somebody_writes_the_job_does_not_wait(tmp_path: Path) -> None:
    live = start(tmp_path, PLAN)
    ask(tmp_path, 5)
    with locked(tmp_path / "ttl.lock", 0) as taken:
        assert taken
        assert live.take_in(0) is None
    assert ttls(live, live.take_in(1)) == (5,)


def test_of_requests_at_once_none_is_lost(tmp_path: Path) -> None:
    count = 8
    live = start(tmp_path, *[PLAN] * count)
    threads = [threading.Thread(target=ask, args=(tmp_path, 10 + i, i)) for i in range(count)]
    for thread in threads:
        thread.start()
    for batch in range(3):
        live.take_in(batch)
    for thread in threads:
        thread.join()
    live.take_in(3)
    assert [read_ttls(tmp_path)["u1", i].now for i in range(count)] == [10 + i for i in range(count)]


def test_the_file_is_plain(tmp_path: Path) -> None:
    start(tmp_path, PLAN)
    data = json.loads((tmp_path / "ttl.json").read_text())
    assert data["format"] == 1
    assert [(s["uid"], s["index"], s["plan"], s["asked"]) for s in data["states"]] == [("u1", 0, PLAN, None)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ttl.json", "ttl.lock"]


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    start(tmp_path, PLAN)
    other = tmp_path / ".ttl.json.1.tmp"
    other.write_text('{"format": 1, "sta')
    ask(tmp_path, 5)
    assert other.read_text() == '{"format": 1, "sta'
    assert read_ttls(tmp_path)


def test_the_shortest_ttl_is_known_however_many_follow(tmp_path: Path) -> None:
    live = start(tmp_path, 0)
    assert read_ttls(tmp_path)["u1", 0].shortest == 0
    for batch, ttl in enumerate((0, 70, 50, *range(100, 400), 0)):
        ask(tmp_path, ttl)
        live.take_in(batch)
    state = read_ttls(tmp_path)["u1", 0]
    assert (state.now, state.shortest, len(state.settings)) == (0, 50, 101)


def test_another_checkpoint_knows_the_shortest_ttl_and_the_last_one(tmp_path: Path) -> None:
    live = start(tmp_path, 900)
    for batch, ttl in enumerate((30, 0, 700)):
        ask(tmp_path, ttl)
        live.take_in(batch)
    state = read_ttls(tmp_path)["u1", 0].for_state(("u2", 1))
    assert state.key == ("u2", 1)
    assert [(s.ttl, s.since) for s in state.settings] == [(30, 0), (700, 0)]
    assert state.during(0) == 700
