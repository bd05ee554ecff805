"""Watermark alignment: which parts of sources may be read, next to a model of the micro-batches of a job."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import CheckpointError
from stateplan.connectors.alignment import Aligner, Alignment, PartWatermarks

NONE = -(2**63)
ROW = 10_000
"""A row of the model is so many rows of the source: as many as are always read in one go."""


@dataclass
class Source:
    """A bounded source: the times of the rows of each part, and how many of them have been read."""

    name: str
    times: Mapping[str, list[int]]
    folder: Path
    drift: int
    read: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.read = dict.fromkeys(self.times, 0)
        self.restart()

    def restart(self) -> None:
        self.aligner = Aligner(Alignment("g", self.drift, self.name, self.folder), 0, True)
        self.first = True

    def mark(self, part: str) -> int:
        return max(self.times[part][: self.read[part]], default=NONE)

    def marks(self) -> dict[str, int]:
        return {part: self.mark(part) for part in self.times if self.read[part]}

    def left(self, read: Mapping[str, int]) -> dict[str, int]:
        return {p: ROW * (len(times) - read[p]) for p, times in self.times.items() if read[p] < len(times)}

    def plan(self) -> tuple[dict[str, int], dict[str, int]]:
        """Up to where the next micro-batch reads, and the parts that may be read."""
        free = self.aligner.open({part: ROW * n for part, n in self.read.items()}, self.left(self.read))
        assert all(rows >= ROW for rows in free.values())
        end = {part: n + free.get(part, 0) // ROW for part, n in self.read.items()}
        self.aligner.note(self.left(end), list(end))
        self.first = False
        return end, free


TIMES = st.lists(st.integers(0, 50), max_size=10)
SOURCES = st.lists(st.lists(TIMES, min_size=1, max_size=3), min_size=1, max_size=3)


@given(SOURCES, st.integers(1, 20), st.sets(st.integers(0, 20), max_size=4))
def test_bounded_sources_come_to_their_end_within_the_drift(parts, drift, crashes) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        sources = [Source(f"s{i}", {f"p{k}": t for k, t in enumerate(s)}, folder, drift) for i, s in enumerate(parts)]
        total = sum(len(times) for source in sources for times in source.times.values())
        for trigger in itertools.count():
            assert trigger <= total + len(crashes), "each micro-batch reads something"
            marks = PartWatermarks(folder, [s.name for s in sources])
            marks.advance({s.name: s.marks() for s in sources})
            plans: list[dict[str, int]] = []
            for i, source in enumerate(sources):
                first = source.first
                before = zip(sources[:i], plans, strict=True)
                seen = [source.mark(part) for part in source.left(source.read)]
                others = [s.mark(p) for s, end in before for p in s.left(end)]
                others += [s.mark(p) for s in sources[i + 1 :] for p in s.left(s.read)]
                end, free = source.plan()
                least = min(seen + ([] if first else others), default=0)
                assert all(source.mark(part) <= least + drift for part in free)
                assert {p for p in source.left(source.read) if source.mark(p) == least} <= free.keys()
                plans.append(end)
            if trigger in crashes:  # before Spark has logged the micro-batch
                for source in sources:
                    source.restart()
                continue
            if all(end == source.read for source, end in zip(sources, plans, strict=True)):
                break
            for source, end in zip(sources, plans, strict=True):
                source.read = end
        assert not any(source.left(source.read) for source in sources)


def test_a_micro_batch_reads_about_as_far_as_the_drift_goes(tmp_path: Path) -> None:
    drift, end = 60_000, 1_000_000
    marks, aligner = PartWatermarks(tmp_path, ["s"]), Aligner(Alignment("g", drift, "s", tmp_path), 0, True)
    per_row = {"slow": 1, "fast": 2}  # ms of event time
    at = dict.fromkeys(per_row, 0)
    for _ in range(end // drift + 6):
        behind = {part: end // ms - at[part] for part, ms in per_row.items() if at[part] < end // ms}
        free = aligner.open(at, behind)
        at = {part: n + free.get(part, 0) for part, n in at.items()}
        now = {part: n * per_row[part] for part, n in at.items()}
        assert abs(now["fast"] - now["slow"]) <= drift + 10_000 * 2, "and the least number of rows"
        marks.advance({"s": now})
    assert now == {"slow": end, "fast": end}, "event time goes about as far as the drift in each micro-batch"


def test_a_micro_batch_reads_at_most_twice_as_much_as_the_one_before(tmp_path: Path) -> None:
    marks, aligner = PartWatermarks(tmp_path, ["s"]), Aligner(Alignment("g", 1_000, "s", tmp_path), 0, False)
    at, got = 0, []
    for mark in (0, 0, 0, 0, 1_000, 1_001):
        free = aligner.open({"a": at, "b": 0}, {"a": 10**9, "b": 1})
        at += free.get("a", 0)
        got.append(free.get("a"))
        marks.advance({"s": {"a": mark, "b": 0}})
    assert got == [10_000, 10_000, 20_000, 40_000, 80_000, 10_000], "the last one is at the end of the drift"
    assert "a" not in aligner.open({"a": at, "b": 0}, {"a": 10**9, "b": 1})


def test_a_part_that_stands_alone_waits_for_nobody(tmp_path: Path) -> None:
    PartWatermarks(tmp_path, ["s"]).advance({"s": {"a": 5}})
    aligner = Aligner(Alignment("g", 1, "s", tmp_path), 0, False)
    assert aligner.open({"a": 0}, {"a": 10_000_000}) == {"a": 10_000_000}


def test_a_part_without_rows_holds_the_others_back_until_it_is_idle(tmp_path: Path) -> None:
    clock = [0.0]
    marks = PartWatermarks(tmp_path, ["s", "t"])
    waiting, quiet = (
        Aligner(Alignment("g", 10, name, tmp_path), timeout, False, lambda: clock[0])
        for name, timeout in (("s", 0), ("t", 5_000))
    )
    for aligner, name in ((waiting, "a"), (quiet, "b")):
        assert aligner.open({name: 0}, {name: 100}) == {name: 100}
        aligner.note({}, [name])
    marks.advance({"s": {"a": 11}, "t": {"b": 0}})

    def tried() -> dict[str, int]:
        quiet.open({"b": 100}, {})
        quiet.note({}, ["b"])
        return waiting.open({"a": 100}, {"a": 100})

    assert tried() == {}
    clock[0] = 4.9
    assert tried() == {}
    clock[0] = 5.0
    assert tried() == {"a": 100}
    assert quiet.open({"b": 100}, {"b": 1}) == {"b": 1}, "it is back"
    quiet.note({"b": 1}, ["b"])
    assert waiting.open({"a": 100}, {"a": 100}) == {}
    marks.advance({"t": {"b": 1}})
    assert waiting.open({"a": 100}, {"a": 100}) == {"a": 100}


def test_who_is_not_in_the_group_is_not_waited_for(tmp_path: Path) -> None:
    own = Alignment("g", 10, "s", tmp_path)
    PartWatermarks(tmp_path, ["s", "t", "u"]).advance({"s": {"a": 100}, "t": {"b": 0}, "u": {"c": 0}})
    Aligner(Alignment("h", 10, "t", tmp_path), 0, False).note({"b": 1}, ["b"])
    assert Aligner(own, 0, False).open({"a": 1}, {"a": 1}) == {"a": 1}, "another group"
    Aligner(Alignment("g", 10, "u", tmp_path), 0, False).note({"c": 1}, ["c"])
    assert Aligner(own, 0, False).open({"a": 1}, {"a": 1}) == {}
    PartWatermarks(tmp_path, ["s", "t"])
    assert Aligner(own, 0, False).open({"a": 1}, {"a": 1}) == {"a": 1}, "a table that the plan no longer has"


def test_a_bounded_source_does_not_wait_for_what_was_noted_in_an_earlier_run(tmp_path: Path) -> None:
    PartWatermarks(tmp_path, ["s", "t"]).advance({"s": {"a": 100}, "t": {"b": 0}})
    Aligner(Alignment("g", 10, "t", tmp_path), 0, True).note({"b": 1}, ["b"])
    aligner = Aligner(Alignment("g", 10, "s", tmp_path), 0, True)
    assert aligner.open({"a": 1}, {"a": 1}) == {"a": 1}, "else both might wait, and the job would end"
    aligner.note({"a": 1}, ["a"])
    assert aligner.open({"a": 1}, {"a": 1}) == {}


def test_the_watermarks_of_the_driver_are_kept_and_never_go_back(tmp_path: Path) -> None:
    PartWatermarks(tmp_path, ["s", "t"]).advance({"s": {"a": 7}, "t": {"b": 9}})
    marks = PartWatermarks(tmp_path, ["s", "t"])
    marks.advance({"s": {"a": 5}})
    Aligner(Alignment("g", 1, "t", tmp_path), 0, False).note({}, ["b"])
    aligner = Aligner(Alignment("g", 1, "s", tmp_path), 0, False)
    assert aligner.open({"a": 0, "c": 0}, {"a": 1, "c": 1}) == {"c": 1}, "7, and none so far, next to 9"
    marks.advance({"s": {"c": 8}})
    assert aligner.open({"a": 0, "c": 1}, {"a": 1, "c": 1}) == {"a": 1, "c": 1}


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"CKPT001.*cannot be used"):
        PartWatermarks(tmp_path / "file", ["s"])
