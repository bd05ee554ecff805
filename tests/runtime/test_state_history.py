"""The size of states over time, from the records of a job: which states, what is drawn, and what is left out."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from stateplan.cli.app import app
from stateplan.cli.exit_codes import ExitCode
from stateplan.common.errors import CheckpointError
from stateplan.plans.state import CheckpointReader
from stateplan.plans.state.history import History, Series, history, to_svg
from stateplan.runtime.metrics.log import FOLDER, MetricsLog
from stateplan.runtime.metrics.records import BatchMetrics, StateSize
from tests.runtime.join_checkpoints import JOIN, checkpoint

SVG = "{http://www.w3.org/2000/svg}"


def drawn(found: History) -> ET.Element:
    return ET.fromstring(to_svg(found, "State of <x> & y"))


def lines(svg: ET.Element) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]  # type: ignore[misc]
        for line in svg.iter(f"{SVG}polyline")
    ]


def texts(svg: ET.Element) -> list[str]:
    return [t.text or "" for t in svg.iter(f"{SVG}text")]


def test_lines_follow_the_figures() -> None:
    rows = (0, 10, 20, 40)
    svg = drawn(
        History(
            (3, 4, 5, 7),
            (0, 60_000, 120_000, 240_000),
            (Series("join.left", rows, tuple(100 * r for r in rows), False),),
        )
    )
    above, below = lines(svg)
    xs, ys = [x for x, _ in above], [y for _, y in above]
    assert (xs[1] - xs[0]) * 2 == pytest.approx(xs[3] - xs[2], abs=0.3), "along the time, not along the records"
    assert (ys[0] - ys[1]) * 2 == pytest.approx(ys[2] - ys[3], abs=0.3)
    assert [x for x, _ in below] == xs
    assert min(y for _, y in below) > max(ys), "bytes stand below rows"
    assert {"State of <x> & y", "stored rows", "bytes", "join.left  40", "join.left  3.9 KiB"} <= set(texts(svg))


def test_a_state_that_comes_later_begins_later_and_one_record_is_drawn() -> None:
    first, second = Series("a", (1, 2), (10, 20), False), Series("b", (None, 5), (None, 50), True)
    svg = drawn(History((0, 1), (0, 1_000), (first, second)))
    assert len(lines(svg)) == 4
    assert len({x for x, _ in lines(svg)[1]}) == 1
    assert any("state from before the records is not counted" in t for t in texts(svg))
    assert len(lines(drawn(History((9,), (5,), (Series("a", (1,), (1,), False),))))) == 2


def test_many_states_share_a_line_and_many_points_are_thinned_but_not_the_largest() -> None:
    count = 5_000
    sizes = [tuple(i * n for n in range(count)) for i in range(12)]
    series = [Series(f"s{i}", size, size, False) for i, size in enumerate(sizes)]
    peak = list(series[11].rows)
    peak[2_500] = 10**6
    series[11] = Series("s11", tuple(peak), tuple(peak), False)
    svg = drawn(History(tuple(range(count)), tuple(range(count)), tuple(series)))
    assert len(lines(svg)) == 16
    assert all(len(line) <= 700 for line in lines(svg))
    assert any(t.startswith("5 others  ") for t in texts(svg))
    ends = [float(t.attrib["y"]) for t in svg.iter(f"{SVG}text") if "  " in (t.text or "")]
    above = sorted(ends)[:8]
    assert all(b - a >= 15.9 for a, b in pairwise(above)), "no name over another"
    tops = [min(y for _, y in line) for line in lines(svg)][:8]
    assert tops[6] == min(tops) < sorted(tops)[1] - 50, "the peak is there"


def test_the_command_draws_what_the_job_recorded(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, JOIN)
    done = CliRunner().invoke(app, ["state", "show", str(folder), "--plot", str(tmp_path / "a.svg")])
    assert done.exit_code == ExitCode.CHECKPOINT
    assert "[CKPT040]" in done.stderr
    assert not (tmp_path / "a.svg").exists()

    uid = CheckpointReader.read(folder).states[0].operator.entry.uid
    log = MetricsLog(folder / FOLDER)
    for n in range(4):
        states = {uid: StateSize([n, 2 * n], [10 * n, 20 * n], [1, 1]), "gone": StateSize([5], [50], [1])}
        log.append(BatchMetrics(n, 60_000 * n, 0, 5.0, {}, states))
    found = CheckpointReader.read(folder).history()
    assert [(s.name, s.rows) for s in found.series] == [
        ("join.left", (0, 1, 2, 3)),
        ("join.right", (0, 2, 4, 6)),
        ("gone.0", (5, 5, 5, 5)),
    ]
    done = CliRunner().invoke(app, ["state", "show", str(folder), "join.right", "--plot", str(tmp_path / "a.svg")])
    assert (done.exit_code, done.stdout) == (0, f"1 state over 4 records, drawn to {tmp_path / 'a.svg'}\n")
    svg = (tmp_path / "a.svg").read_text()
    assert re.findall(r"join\.\w+  [\w.]+", svg)[0] == "join.right  6"
    assert "script" not in svg
    piped = CliRunner().invoke(app, ["state", "show", str(folder), "join.right", "--plot", "-"])
    assert piped.stdout == svg
    plan = (folder / "plan.json").rename(folder / "plan.svg")
    (folder / "plan.json").write_bytes(plan.read_bytes())
    done = CliRunner().invoke(app, ["state", "show", str(folder), "--plot", str(plan)])
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "PLAN183" in done.stderr


def test_no_records_of_state(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        history(checkpoint(tmp_path, JOIN), {})
    assert error.value.code == "CKPT040"
