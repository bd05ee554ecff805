"""``job top`` and ``job metrics`` over checkpoints with figures: running, stopped, restarted, damaged."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from stateplan.cli.app import app
from stateplan.cli.job.snapshot import JobSnapshot
from stateplan.cli.job.top import _live
from stateplan.cli.job.top_text import line, table_text
from stateplan.common.paths import nearest_folder
from stateplan.common.readable import bytes_text
from stateplan.plans.document import PlanDocument
from stateplan.plans.job_snapshot import JobPlan
from stateplan.plans.live import ask
from stateplan.plans.selector_text import parse_assignment
from stateplan.runtime.checkpoint.locks import FileLock, Holder, Lease, writer_lock
from stateplan.runtime.metrics.log import FOLDER, MetricsLog
from stateplan.runtime.metrics.view import JobView, Watcher
from tests.support.job_records import JOIN, PLAN, info, job_checkpoint, record, write_job

STATES = JobPlan(PlanDocument.load(str(PLAN))).states()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return job_checkpoint(tmp_path / "cp")


def look(folder: Path) -> JobView:
    view = Watcher(folder).look()
    assert view is not None
    return view


def test_the_table_of_a_stopped_job(checkpoint: Path) -> None:
    # Three micro-batches of half a second, a second apart: 2.5 s, 300 rows; the join has 0.6 s of the 5 s of two tasks.
    assert table_text(look(checkpoint), STATES) == (
        'the "job" (4711)\n'
        "stopped at 1970-01-01 00:16:42\n"
        "batch 2 took 500 ms; its time 1970-01-01 00:00:02\n"
        "event time 1970-01-01 00:01:00\n"
        "\n"
        "id  operator      ttl  in/s  out/s  stored rows    bytes  runs  expired  late  busy  cache\n"
        "1   Orders              120    120                                               1%\n"
        "5   join                120    180                                          6   12%    75%\n"
        "      join.left   1 s                     1,002  303 KiB    12\n"
        "      join.right  1 h                        20    700 B     1       12\n"
        '7   od"d\\name           180                                                      0%\n'
    )


def test_ttls_are_there_before_the_first_micro_batch() -> None:
    lines = table_text(JobView(info(), 1_000_000, Holder(1, "here", 0), ()), STATES).splitlines()
    assert any(line.split()[:4] == ["id", "operator", "ttl", "in/s"] for line in lines)
    assert [line.split() for line in lines if "join." in line] == [["join.left", "1", "s"], ["join.right", "1", "h"]]


def test_rates_of_a_running_job_are_of_the_last_ten_seconds() -> None:
    records = tuple(record(n, started=1_000_000 + 1000 * n) for n in range(30))
    writer = Holder(1, "here", 0)

    def rate(now: int) -> float:
        return JobView(info(), now, writer, records).operators()[0].rows_in

    assert rate(1_030_000) == pytest.approx(100)  # 10 micro-batches of 100 rows
    assert rate(1_034_000) == pytest.approx(60)  # four seconds without any
    assert rate(1_100_000) == 0
    slow = JobView(info(), 1_050_000, writer, records, in_hand=(30, 1_030_000))
    assert slow.operators()[0].rows_in == pytest.approx(100 / 21), "the last one, as another one runs for 20 s"


def test_load_and_rates_by_input() -> None:
    records = tuple(record(n, started=1_000_000 + 1000 * n) for n in range(30))
    writer = Holder(1, "here", 0)
    view = JobView(info(), 1_030_000, writer, records)
    assert view.load == pytest.approx(0.5), "half a second of every second"
    assert view.operators()[1].inputs == pytest.approx((60, 40))
    assert view.operators()[0].inputs == ()
    assert "load 50%" in table_text(view, STATES)
    long = JobView(info(), 1_090_000, writer, records, in_hand=(30, 1_030_000))
    assert long.load == 1, "a micro-batch is in hand for a minute"
    assert JobView(info(), 1_090_000, writer, (), in_hand=(0, 1_080_000)).load == 1
    assert JobView(info(), 1_090_000, None, records).load == pytest.approx(5 / 9.5), "up to the end of the last one"


def test_a_ttl_that_is_asked_for(checkpoint: Path) -> None:
    ask(checkpoint, [parse_assignment("join.right=2 h")], user_name="ada")
    states = JobPlan.of(checkpoint).states()
    text = table_text(look(checkpoint), states)
    assert "join.right  1 h -> 2 h" in text
    data = states[5, 1].to_json()
    assert (data["ttl"], data["planTtl"], data["asked"]["ttl"], data["asked"]["who"]) == ("1 h", "1 h", "2 h", "ada")


def test_one_long_micro_batch_counts_by_its_own_time() -> None:
    view = JobView(info(), 1_050_000, None, (record(0, started=1_000_000, ms=50_000),))
    assert view.operators()[0].rows_in == pytest.approx(2)


def test_sizes_that_are_not_whole_are_marked() -> None:
    view = JobView(info(), 1_000_500, None, (record(0, partial=True),))
    text = table_text(view, STATES)
    assert "1,000+" in text and "before figures were recorded" in text


def test_a_line_for_a_log(checkpoint: Path) -> None:
    assert line(look(checkpoint)) == (
        "batch 2 (500 ms) | 120 rows/s in | 180 rows/s out | 1,022 stored rows | 303 KiB | busiest join[5] 12% | "
        "stopped"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1024, "1.0 KiB"), (310_000, "303 KiB"), (5e12, "4.5 TiB"), (-2048, "-2.0 KiB")],
)
def test_sizes(size: float, text: str) -> None:
    assert bytes_text(size) == text


def test_a_watcher_adds_what_is_new_and_begins_anew_with_a_run(checkpoint: Path) -> None:
    watcher = Watcher(checkpoint)
    first = watcher.look()
    assert first is not None and first.batches == 3 and first.totals[JOIN]["rows_in"] == 300
    MetricsLog(checkpoint / FOLDER).append(record(3))
    second = watcher.look()
    assert second is not None and second.batches == 4 and second.totals[JOIN]["rows_in"] == 400
    write_job(checkpoint, 2, first=4)
    third = watcher.look()
    assert third is not None and third.batches == 2 and third.totals[JOIN]["rows_in"] == 200
    assert third.last is not None and third.last.batch == 5


def test_what_spark_has_begun_and_what_is_to_come(checkpoint: Path) -> None:
    assert (look(checkpoint).in_hand, look(checkpoint).backlog) == (None, None)
    for log, numbers in (("offsets", (0, 1, 2, 3)), ("commits", (0, 1, 2))):
        (checkpoint / "spark" / log).mkdir(parents=True)
        for n in numbers:
            (checkpoint / "spark" / log / str(n)).write_text(f'v1\n{{}}\n{{"logOffset":{n}}}\n-')
    (checkpoint / "splits" / "instants").mkdir(parents=True)
    for n in range(9):
        (checkpoint / "splits" / "instants" / f"{n:010d}_{n}").write_text("x")
    view = look(checkpoint)
    assert view.in_hand is not None and view.in_hand[0] == 3 and view.backlog == 6
    text = table_text(view, STATES)
    assert "batch 3 was not committed and will run again" in text and "6 micro-batches to come" in text
    lock = writer_lock(checkpoint)
    try:
        assert "batch 3 runs for" in table_text(look(checkpoint), STATES)
    finally:
        lock.release()


def test_the_command_on_a_stopped_job(checkpoint: Path) -> None:
    done = CliRunner().invoke(app, ["job", "top", str(checkpoint)])
    assert done.exit_code == 0, done.stderr
    assert "\nstopped at 1970" in done.stdout and "join.left" in done.stdout
    as_json = json.loads(CliRunner().invoke(app, ["job", "top", f"file://{checkpoint}", "--format", "json"]).stdout)
    assert as_json["running"] is False and as_json["batch"]["batch"] == 2
    [join] = [o for o in as_json["operators"] if o["kind"] == "operator"]
    assert [s["selector"] for s in join["state"]] == ["join.left", "join.right"] and join["totals"]["late_rows"] == 6


def test_the_command_on_a_running_job_ends_with_it(checkpoint: Path) -> None:
    lock = writer_lock(checkpoint)
    seen = threading.Event()

    def run_on() -> None:
        MetricsLog(checkpoint / FOLDER).append(record(3))
        seen.wait(0.4)
        lock.release()

    once = CliRunner().invoke(app, ["job", "top", str(checkpoint), "--once"])
    assert "runs: process" in once.stdout
    job = threading.Timer(0.4, run_on)
    job.start()
    done = CliRunner().invoke(app, ["job", "top", str(checkpoint), "--interval", "0.1"])
    job.join()
    lines = done.stdout.splitlines()
    assert [text.split(" ")[1] for text in lines] == ["2", "3", "3"], done.stdout
    assert lines[-1].endswith("stopped") and "stopped" not in lines[0]


def test_the_screen_is_drawn_again_until_the_job_ends_and_is_left_as_it_was(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "6")
    lock = writer_lock(checkpoint)
    job = threading.Timer(0.4, lock.release)
    job.start()
    _live(JobSnapshot(str(checkpoint), {}), 0.1)
    job.join()
    out = capsys.readouterr().out
    assert out.startswith("\033[?1049h") and out.endswith("\033[?1049l")
    screens = out.split("\033[H")[1:]
    assert len(screens) >= 2
    for screen in screens:
        lines = screen.split("\033[J")[0].replace("\033[K", "").splitlines()
        assert len(lines) == 5 and max(map(len, lines)) == 39 and "runs: process" in lines[1]


def test_a_plan_that_cannot_be_read_costs_the_selectors_only(checkpoint: Path) -> None:
    (checkpoint / "plan.json").write_text("{")
    done = CliRunner().invoke(app, ["job", "top", str(checkpoint)])
    assert done.exit_code == 0 and "join.left-state" in done.stdout


def test_prometheus_text_of_a_checkpoint(checkpoint: Path) -> None:
    done = CliRunner().invoke(app, ["job", "metrics", str(checkpoint)])
    assert done.exit_code == 0
    assert 'flink_taskmanager_job_task_operator_numRecordsIn{job_id="4711",job_name="the \\"job\\""' in done.stdout


def test_a_job_that_starts_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "ck"
    began: list[FileLock | Lease] = []

    def begin() -> None:
        folder.mkdir()
        began.append(writer_lock(folder))

    steps = [
        (0.3, begin),
        (0.9, lambda: job_checkpoint(folder)),
        (1.5, lambda: began[0].release()),
    ]
    timers = [threading.Timer(after, step) for after, step in steps]
    for timer in timers:
        timer.start()
    done = CliRunner().invoke(app, ["job", "top", str(folder), "--interval", "0.1", "--timeout", "0.6"])
    for timer in timers:
        timer.join()
    assert done.exit_code == 0, done.stderr
    missing = f"the checkpoint directory {folder} cannot be used: it does not exist"
    assert done.stderr == f"waiting for a job to start: {missing}\n"
    assert done.stdout.startswith("batch 2 ") and done.stdout.endswith("stopped\n")


def test_a_checkpoint_that_is_made_for_a_changed_plan_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "ck"
    folder.mkdir()
    (folder / "recovering").write_text("/data/old\n")
    timers = [
        threading.Timer(0.8, lambda: job_checkpoint(folder / "backfill-1")),
        threading.Timer(1.8, lambda: job_checkpoint(folder)),
    ]
    for timer in timers:
        timer.start()
    done = CliRunner().invoke(app, ["job", "top", str(folder), "--once"])
    assert done.exit_code == 4, "it waits for nothing"
    done = CliRunner().invoke(app, ["job", "top", str(folder), "--interval", "0.1", "--timeout", "20"])
    for timer in timers:
        timer.join()
    assert done.exit_code == 0, done.stderr
    waiting = "waiting for a job to start: its checkpoint is made from /data/old"
    assert done.stderr == f"{waiting}\n{waiting}, 300 rows of history read\n"


def test_waiting_for_a_job_ends_with_the_time_limit_or_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["job", "top", str(tmp_path / "ck"), "--timeout", "0.2"]
    ended = CliRunner().invoke(app, arguments)
    assert (ended.exit_code, ended.stdout) == (4, "")
    assert "waiting for a job to start" in ended.stderr and "[CKPT001]" in ended.stderr

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    clock = SimpleNamespace(sleep=interrupted, monotonic=time.monotonic)
    monkeypatch.setattr("stateplan.cli.job.snapshot.time", clock)
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_a_hint_at_a_neighbour_needs_a_folder_that_can_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoint").mkdir()
    assert nearest_folder(tmp_path / "chekpoint") == "did you mean 'checkpoint'?"

    def refused(folder: str) -> None:
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(os, "scandir", refused)
    assert nearest_folder(tmp_path / "chekpoint") is None


@pytest.mark.parametrize("command", [["top", "--once"], ["top", "--timeout", "0"], ["metrics"]])
def test_where_there_are_no_figures(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "stateplan.json").write_text("{}")
    wanted = (("none", "CKPT001", 4), ("empty", "CKPT002", 4), ("old", "RUN085", 1), ("x" * 300, "CKPT001", 4))
    for folder, code, status in wanted:
        done = CliRunner().invoke(app, ["job", *command, str(tmp_path / folder)])
        assert (done.exit_code, code in done.stderr) == (status, True), done.stderr
