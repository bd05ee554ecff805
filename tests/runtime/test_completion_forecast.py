"""What is told of a job while a micro-batch runs: figures of running tasks, the share of its input, the time left."""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateplan.common.readable import roughly
from stateplan.common.types import parse_type
from stateplan.connectors.listing import file_list, table_files
from stateplan.connectors.protocol import SourceTable
from stateplan.connectors.registry import CONNECTORS, FORMATS
from stateplan.connectors.splits import FileSplit
from stateplan.evolution.history import HistorySource, Piece
from stateplan.runtime.completion_forecast import Forecaster
from stateplan.runtime.jobgraph import JobGraph, Pipeline, SourceSpec
from stateplan.runtime.metrics import live
from stateplan.runtime.metrics.counters import SparkTaskCounters
from stateplan.runtime.metrics.live import Attempt, LiveFigures, clear, live_figures
from stateplan.runtime.source_tasks import read_source
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.translate import translate
from stateplan.runtime.worker import MicroBatch
from stateplan.session.environment import TableEnvironment

FILES = CONNECTORS["filesystem"]
NOWHERE = SparkCheckpoint(Path("nowhere"))
STATEFUL = "SELECT k, COUNT(*) FROM t GROUP BY k"
ROW = '{"k": 1}\n'


def job(query: str, **options: str) -> JobGraph:
    env = TableEnvironment.create({})
    env.execute_sql("CREATE TABLE snk (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
    written = ", ".join(f"'{key.replace('_', '.')}' = '{value}'" for key, value in options.items())
    env.execute_sql(f"CREATE TABLE t (k INT) WITH ({written})")
    graph = env.compile_plan_sql(f"INSERT INTO snk {query}").document.graph
    return translate(graph, {}, 4, job_id="j", start_time=0)


def files(folder: Path, *rows: int) -> dict[str, str]:
    """The options of a table of files with so many rows of nine bytes."""
    folder.mkdir()
    for number, count in enumerate(rows):
        (folder / f"{number}.json").write_text(ROW * count)
    return {"connector": "filesystem", "format": "json", "path": str(folder)}


def test_the_share_is_that_of_the_bytes(tmp_path: Path) -> None:
    graph = job("SELECT k, CAST(1 AS BIGINT) FROM t", **files(tmp_path / "in", 60, 40))
    uid = graph.sources[0].uid
    forecast = Forecaster(graph, NOWHERE, 0, 0)
    assert forecast.look(1.9, 0, {}, {uid: {"bytes_read": 90}}) is None, "too early"
    start = forecast.look(3, 0, {}, {})
    assert start is not None and (start.share, start.seconds, start.bytes) == (0, None, 900)
    later = forecast.look(30, 1, {uid: {"bytes_read": 180}}, {uid: {"bytes_read": 90}})
    assert later is not None and (later.share, later.seconds) == (pytest.approx(0.3), pytest.approx(70))
    assert forecast.look(100, 2, {uid: {"bytes_read": 900}}, {}) is None, "there is nothing left"


def test_rows_that_wait_for_an_operator_count_in_part(tmp_path: Path) -> None:
    graph = job(STATEFUL, **files(tmp_path / "in", 100))
    source, operator = graph.sources[0].uid, graph.operators[0].uid
    forecast = Forecaster(graph, NOWHERE, 0, 0)

    def share(before: dict[str, Any], **now: float) -> float:
        figures = {source: {"bytes_read": now["read"]}, operator: {"key_groups": now.get("groups", 0)}}
        found = forecast.look(10, 1, before, figures)
        assert found is not None
        return found.share

    assert share({}, read=450) == pytest.approx(0.25), "half of it is read; reading counts as half the work"
    assert share({}, read=450, groups=2) == pytest.approx(0.375)
    before = {source: {"bytes_read": 90, "busy_ms": 10}, operator: {"busy_ms": 30}}
    assert share(before, read=450) == pytest.approx(0.1 + 0.5 / 4), "as measured, reading is a quarter"


def test_other_input(tmp_path: Path) -> None:
    rows = job(STATEFUL, connector="datagen", **{"number-of-rows": "1000"})
    found = Forecaster(rows, NOWHERE, 0, 0).look(10, 1, {rows.sources[0].uid: {"rows_in": 500}}, {})
    assert found is not None and (found.share, found.bytes) == (0.5, None)
    (tmp_path / "a.json").write_text('{"@at": 1, "k": 1}\n')
    replay = job(STATEFUL, connector="replay", format="json", path=str(tmp_path / "a.json"))
    found = Forecaster(replay, NOWHERE, 0, 8).look(10, 2, {}, {})
    assert found is not None and (found.share, found.seconds) == (0.25, pytest.approx(30))
    found = Forecaster(replay, NOWHERE, 4, 8).look(10, 1, {}, {})
    assert found is not None and found.share == 0.25, "of the instants that an earlier run has left"
    endless = job(STATEFUL, connector="datagen")
    assert Forecaster(endless, NOWHERE, 0, 0).look(10, 1, {}, {}) is None


def test_history_counts_by_bytes_from_its_beginning_and_by_instants_later(tmp_path: Path) -> None:
    graph = job(STATEFUL, **files(tmp_path / "in", 60, 40))
    (source,) = graph.sources
    paths = [tmp_path / "in" / f"{number}.json" for number in (0, 1)]
    pieces = {7: [Piece(7, 9, FileSplit(str(path), path.stat().st_size), "") for path in paths]}
    reader = HistorySource(source.reader, pieces, 1)
    graph = replace(graph, sources=(replace(source, reader=reader),), operators=())
    half = Forecaster(graph, NOWHERE, 0, 1).look(10, 0, {}, {source.uid: {"bytes_read": 450}})
    assert half is not None and (half.share, half.seconds, half.bytes) == (0.5, 10, 900)
    resumed = Forecaster(graph, NOWHERE, 1, 3).look(10, 1, {}, {source.uid: {"bytes_read": 450}})
    assert resumed is not None and (resumed.share, resumed.bytes) == (0.5, None)


def test_what_an_earlier_run_has_read_is_no_work(tmp_path: Path) -> None:
    graph = job("SELECT k, CAST(1 AS BIGINT) FROM t", **files(tmp_path / "in", 10, 20, 30))
    spark = tmp_path / "spark"
    for folder in ("offsets", "sources/0"):
        (spark / folder).mkdir(parents=True)
    for batch in (0, 1):
        (spark / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}')
        entry = {"path": (tmp_path / "in" / f"{batch}.json").as_uri(), "timestamp": 0, "batchId": batch}
        (spark / "sources" / "0" / str(batch)).write_text(f"v1\n{json.dumps(entry)}")
    found = Forecaster(graph, SparkCheckpoint(spark), 1, 0).look(10, 0, {}, {})
    assert found is not None and found.bytes == 9 * (20 + 30), "micro-batch 1 was planned and not committed"


def test_what_is_in_markers_that_an_earlier_run_took_is_no_work(tmp_path: Path) -> None:
    graph = job("SELECT k, CAST(1 AS BIGINT) FROM t", **files(tmp_path / "in", 10, 20, 30))
    marker = tmp_path / "splits" / "filesystem-x" / "0000000000_2"
    for folder in (marker.parent, tmp_path / "spark/offsets", tmp_path / "spark/sources/0"):
        folder.mkdir(parents=True)
    found = table_files(str(tmp_path / "in"))
    marker.write_text(file_list(str(tmp_path), sorted(found, key=lambda file: file.path)[:2]))
    (tmp_path / "spark/offsets/0").write_text('v1\n{}\n{"logOffset":0}')
    entry = {"path": marker.as_uri(), "timestamp": 0, "batchId": 0}
    (tmp_path / "spark/sources/0/0").write_text(f"v1\n{json.dumps(entry)}")
    forecast = Forecaster(graph, SparkCheckpoint.of(tmp_path), 1, 0).look(10, 0, {}, {})
    assert forecast is not None and forecast.bytes == 9 * 30


def test_a_running_task_leaves_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY", 0.0)
    folder, first, second = str(tmp_path), Attempt(3, 1, 0, 7), Attempt(3, 1, 1, 8)
    figures = LiveFigures(folder)
    figures.replace(first, "scan", {"rows_in": 5})
    figures.replace(first, "scan", {"rows_in": 9})
    figures.add(first, "join", {"rows_in": 2})
    figures.add(first, "join", {"rows_in": 3})
    LiveFigures(folder).add(second, "join", {"rows_in": 1})
    assert live_figures(folder, 3) == {
        first: {"scan": {"rows_in": 9}, "join": {"rows_in": 5}},
        second: {"join": {"rows_in": 1}},
    }
    figures.add(first, "scan", {"rows_in": 10})
    assert live_figures(folder, 3)[first]["scan"] == {"rows_in": 10}, "what it has come to"
    assert live_figures(folder, 4) == {}
    clear(folder)
    assert live_figures(folder, 3) == {} and live_figures(str(tmp_path / "none"), 3) == {}


def test_a_short_task_leaves_nothing(tmp_path: Path) -> None:
    counters: SparkTaskCounters = pickle.loads(pickle.dumps(SparkTaskCounters({}, str(tmp_path))))
    counters.so_far("scan", {"rows_in": 5})
    assert list(tmp_path.iterdir()) == []
    time.sleep(live.EVERY)
    counters.so_far("scan", {"rows_in": 6})
    assert [p.name for p in tmp_path.iterdir()] == ["-1-0-0-0"]


def test_a_source_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[float, float]] = []

    class Told:
        def add(self, uid: str, figures: dict[str, float]) -> None:
            told.append((figures["rows_in"], figures["bytes_read"]))

        def so_far(self, uid: str, figures: dict[str, float]) -> None:
            self.add(uid, figures)

    files(tmp_path / "in", 2, 3)
    fields = (("k", parse_type("INT")),)
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "json"}
    table = SourceTable("t", FILES, options, fields, FORMATS["json"], projection=(0,))
    source = SourceSpec("u", "t", "filesystem", FILES.source(table), Pipeline((), ()))
    rows = [{"path": str(tmp_path / "in" / f"{n}.json"), "now": 0, "seq": str(n)} for n in (0, 1)]
    batch = MicroBatch(JobGraph((source,), (), (), 8), counters=Told())
    list(read_source(batch, 0)([pa.RecordBatch.from_pylist(rows)]))
    assert told == [(2, 18), (5, 45), (5, 45)]


def test_guesses_are_not_exact() -> None:
    assert [roughly(s) for s in (0.2, 12.4, 89, 150, 3600, 5 * 3600)] == [
        "1 s",
        "12 s",
        "89 s",
        "2 min",
        "60 min",
        "5 h",
    ]
