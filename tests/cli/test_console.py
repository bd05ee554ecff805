"""What the consoles write, and where."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from stateplan.cli.console import Console, JsonConsole, TerminalConsole
from stateplan.common.errors import Place, SqlError
from stateplan.common.readable import display_width, render
from stateplan.runtime.completion_forecast import Forecast
from stateplan.runtime.job import Progress
from tests.cli.console_capture import CaptureConsole


def test_a_table_looks_like_flinks() -> None:
    assert (
        render(["name", "null"], [["orders", True], ["a", False]])
        == """\
+--------+-------+
|   name |  null |
+--------+-------+
| orders |  TRUE |
|      a | FALSE |
+--------+-------+
2 rows in set
"""
    )


def test_one_row_and_none() -> None:
    assert render(["x"], [[None]]).splitlines()[3:] == ["| <NULL> |", "+--------+", "1 row in set"]
    assert render(["x"], []) == "Empty set\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31m", "\\u001b[31m"),
        ("x" * 101, "x" * 97 + "..."),
        ("日" * 60, "日" * 48 + "..."),
    ],
)
def test_a_value_stays_in_its_cell(value: str, shown: str) -> None:
    assert render(["c", "d"], [[value, 1]]).splitlines()[3].split() == ["|", shown, "|", "1", "|"]


def test_a_column_that_stands_alone_is_not_cut() -> None:
    path = "file:/data/" + "x" * 200
    assert f"| {path} |" in render(["savepoint path"], [[path]])


def test_wide_characters_keep_the_frame_straight() -> None:
    lines = render(["city"], [["北京"], ["Zürich"]]).splitlines()
    assert len({display_width(line) for line in lines[:-1]}) == 1


def test_results_and_the_rest_go_different_ways() -> None:
    out, err = io.StringIO(), io.StringIO()
    console = Console(out=out, err=err)
    console.show("result", None)
    console.note("note")
    console.warning("odd")
    console.error(SqlError.with_text("SQL001", "wrong"))
    assert out.getvalue() == "result\n"
    assert err.getvalue() == "note\nwarning: odd\nerror: [SQL001] wrong\n"


def test_quiet_keeps_warnings_and_errors() -> None:
    console = CaptureConsole(quiet=True)
    console.note("note")
    console.progress(Progress())
    console.finished(Progress())
    console.warning("odd")
    assert console.asides == "warning: odd\n"


def test_progress_in_a_pipe_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("stateplan.cli.console.time.monotonic", lambda: now)
    err = io.StringIO()
    console = Console(err=err, every=5)
    console.status("starting")
    for _ in range(60):
        now += 0.2
        console.progress(Progress(batch=3, rows_in=1234567, rows_out=89, seconds=now, batch_seconds=0.25))
    lines = err.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0] == f"batch 3 (0.2 s) | 1,234,567 rows in | 89 rows out | {105.0:.1f} s"


def test_the_live_line_makes_way_for_results(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    console = TerminalConsole(err=screen)
    console.status("starting the job")
    print("+I[1]")
    console.finished(Progress(batch=0, rows_in=1, rows_out=1))
    assert sys.stdout is screen
    erased = [part for part in screen.getvalue().split("\r\033[K") if part]
    assert erased == ["starting the job ...", "+I[1]\nfinished: batch 0 (0.0 s) | 1 row in | 1 row out | 0.0 s\n"]


def test_the_forecast_of_a_job() -> None:
    out = io.StringIO()
    for forecast in (Forecast(0, None, 84_000_000), Forecast(0.428, 31.7, 84_000_000), Forecast(0.5, 200, None)):
        Console(err=out).finished(Progress(rows_in=1, forecast=forecast))
    assert re.findall(r"no batch yet \| (.*) \| 1 row in", out.getvalue()) == [
        "0% of 80.1 MiB",
        "42% of 80.1 MiB, about 32 s left",
        "50%, about 3 min left",
    ]
    JsonConsole(err=out).finished(Progress(forecast=Forecast(0.428, 31.74, 84_000_000)))
    figures = json.loads(out.getvalue().splitlines()[-1])["finished"]
    assert (figures["share"], figures["secondsLeft"]) == (0.428, 31.7)


def test_json_is_one_object_per_line() -> None:
    out, err = io.StringIO(), io.StringIO()
    console = JsonConsole(out=out, err=err)
    console.table(["a"], [[1], ["é"]])
    console.error(SqlError.with_text("SQL001", "wrong", place=Place(file="f.sql", line=2), hint="do"))
    console.finished(Progress(batch=1, rows_in=2, rows_out=3, seconds=0.5, sinks={"t": 3}))
    assert json.loads(out.getvalue()) == {"columns": ["a"], "rows": [[1], ["é"]]}
    first, last = err.getvalue().splitlines()
    error = json.loads(first)["error"]
    assert (error["code"], error["place"]["line"], error["hint"]) == ("SQL001", 2, "do")
    figures = {"batch": 1, "rowsIn": 2, "rowsOut": 3, "seconds": 0.5, "sinks": {"t": 3}}
    assert json.loads(last) == {"finished": figures}
