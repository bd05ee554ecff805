"""ALTER JOB ... WITH ('shadow' = 'true'): a plan runs beside that of a job, and takes its place or goes again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import OptionError, RunError
from stateplan.runtime.jobgraph import IDLE
from stateplan.session.environment import TableEnvironment
from stateplan.session.results import TableResult
from tests.e2e.arriving import COUNTS, Work, start, until

pytestmark = pytest.mark.spark

LINES = "INSERT INTO lines SELECT k, v FROM arriving"
WINDOWS = (
    "INSERT INTO windows SELECT window_start, COUNT(*) FROM "
    "TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
)
OLD = (COUNTS, LINES)
NEW = (COUNTS.replace("SUM(v)", "MAX(v)"), f"{LINES} WHERE v > 3")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    with Work(tmp_path / "a job") as work:
        yield work


def session(work: Work) -> TableEnvironment:
    env = work.session("first")
    env.execute_sql(
        f"CREATE TABLE lines (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{work.folder / 'lines'}', "
        "'format' = 'json')"
    )
    return env


def statements(inserts: tuple[str, ...]) -> str:
    return f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END"


def lines(work: Work) -> list[str]:
    return sorted(line for path in (work.folder / "lines").glob("part-*") for line in path.read_text().splitlines())


def line(k: int, v: int) -> str:
    return f'{{"k":{k},"v":{v}}}'


def id_of(result: TableResult) -> str:
    ((job_id, _),) = [tuple(row) for row in result.collect()]
    return str(job_id)


def report(env: TableEnvironment, job_id: str) -> list[str]:
    (note,) = env.execute_sql(f"DESCRIBE JOB '{job_id}'").notes
    return note.splitlines()


def begin(work: Work, env: TableEnvironment, *more: str, shadow: tuple[str, ...] = NEW) -> str:
    """A job that does ``more`` with its plan, and its shadow. Returns its id."""
    work.add("a", (1, 2, "00:00:00"), (2, 5, "00:00:01"))
    job = start(env, statements((*OLD, *more)))
    until(lambda: work.holds() == {(1, 1, 2), (2, 1, 5)}, "the first rows")
    plan = work.folder / "new.json"
    env.compile_plan_sql(statements(shadow)).write_to_file(plan)
    shadowed = env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}' WITH ('shadow' = 'true')")
    work.add("b", (1, 3, "00:00:02"), (2, 4, "00:00:03"))
    until(lambda: work.holds() == {(1, 2, 5), (2, 2, 9)}, "the old plan writes")
    until(lambda: lines(work) == [line(1, 2), line(1, 3), line(2, 4), line(2, 5)], "the old plan writes lines")
    return id_of(shadowed)


def check_report(env: TableEnvironment, job_id: str) -> None:
    until(lambda: "no new input" not in report(env, job_id)[0], "the figures of the micro-batch")
    report_lines = report(env, job_id)
    assert report_lines[0].startswith("runs the old plan and a shadow of the new one: ")
    figures = {words[1]: words for words in map(str.split, report_lines) if words[:1] == ["the"]}
    assert figures["old"][3:5] == ["2", "6"] and figures["new"][3:5] == ["2", "5"], "rows read, and changes"
    at = report_lines.index("lines: 1 row differs, 1 equal")
    assert report_lines[at + 1] == '  only old   +I {"k": 1, "v": 3}'
    at = report_lines.index("counts: 2 rows differ, 0 equal")
    rows = ['{"k": 1, "n": 2, "s": 5}', '{"k": 1, "n": 2, "s": 3}']
    assert report_lines[at + 1] == f"  different  {rows[0]}  became  {rows[1]}"


def layout(checkpoint: str) -> dict[str, Any]:
    """What a checkpoint holds."""
    first: dict[str, Any] = json.loads((Path(checkpoint) / "stateplan.json").read_text())["layouts"][0]
    return first


def test_a_shadow_takes_the_place_of_the_plan(work: Work) -> None:
    env = session(work)
    shadowed = begin(work, env)
    check_report(env, shadowed)
    committed = env.execute_sql(f"ALTER JOB '{shadowed}' COMMIT")
    ((job_id, checkpoint),) = [tuple(row) for row in committed.collect()]
    assert job_id == shadowed, "it is the same job"
    assert re.fullmatch(r"the job runs the new plan alone from micro-batch \d+ on", committed.notes[0])
    work.add("c", (1, 1, "00:00:04"), (2, 7, "00:00:05"))
    until(lambda: line(2, 7) in lines(work), "the new plan writes lines")
    assert lines(work) == [line(1, 2), line(1, 3), line(2, 4), line(2, 5), line(2, 7)], "the filter of the new plan"
    until(lambda: (2, 3, 7) in [tuple(after.values()) for _, after in work.changes("counts") if after], "its maximum")
    statuses = {row[0]: row[2] for row in env.execute_sql("SHOW JOBS").collect()}
    assert statuses.pop(job_id) == "RUNNING" and set(statuses.values()) == {"FINISHED"}
    assert env.execute_sql(f"DESCRIBE JOB '{job_id}'").notes == (), "it has no shadow"
    assert not (Path(checkpoint) / "shadow").exists()


def test_a_job_starts_again_after_a_switch(work: Work) -> None:
    """Its checkpoint has sources of the other plan, which Spark counts, and state that nobody uses."""
    env = session(work)
    shadowed = begin(work, env, WINDOWS)
    ((job_id, checkpoint),) = [tuple(row) for row in env.execute_sql(f"ALTER JOB '{shadowed}' COMMIT").collect()]
    work.add("c", (1, 9, "00:00:04"))
    until(lambda: line(1, 9) in lines(work), "the new plan writes")
    env.execute_sql(f"STOP JOB '{job_id}'")
    work.add("d", (2, 1, "00:00:05"), (2, 8, "00:00:06"))
    assert [source["node"] for source in layout(checkpoint)["sources"]].count(IDLE) == 1, "the scan with event time"
    assert layout(checkpoint)["dropped"], "the sums"
    for number in range(2):
        env.get_config().set("execution.checkpointing.dir", checkpoint)
        job = start(env, f"EXECUTE PLAN '{work.folder / 'new.json'}'")
        assert job.job_id.replace("-", "") == job_id
        new_row = (3, 5 + number, f"00:00:1{number}")
        work.add(f"e{number}", new_row)
        until(lambda row=new_row: line(*row[:2]) in lines(work), "it continues")  # type: ignore[misc]
        job.stop()
    assert lines(work) == sorted(
        [line(1, 2), line(1, 3), line(2, 4), line(2, 5), line(1, 9), line(2, 8), line(3, 5), line(3, 6)]
    )
    rows = sorted(tuple(after.values()) for _, after in work.changes("counts") if after)
    assert {k: (n, v) for k, n, v in rows} == {1: (3, 9), 2: (4, 8), 3: (2, 6)}, "the last count of each"
    assert not layout(checkpoint)["dropped"], "it was dropped by the run before"


def test_a_shadow_goes_again(work: Work) -> None:
    """Its table of ticks has no end, so the query that reads it stops, and the old plan gets a new checkpoint."""
    env = session(work)
    env.execute_sql("CREATE TABLE endless (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1')")
    env.execute_sql("CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'blackhole')")
    shadowed = begin(work, env, shadow=(*NEW, "INSERT INTO ticks SELECT n FROM endless"))
    for refused in (
        f"ALTER JOB '{shadowed}' USING PLAN '{work.folder / 'new.json'}'",
        f"STOP JOB '{shadowed}' WITH SAVEPOINT",
    ):
        with pytest.raises(RunError) as error:
            env.execute_sql(refused)
        assert error.value.code == "RUN067"
    result = env.execute_sql(f"ALTER JOB '{shadowed}' ROLLBACK")
    assert any(note.startswith("switched in ") for note in result.notes)
    back = id_of(result)
    assert back != shadowed
    work.add("c", (1, 1, "00:00:04"), (3, 7, "00:00:05"))
    until(lambda: work.holds() == {(1, 3, 6), (2, 2, 9), (3, 1, 7)}, "the old plan continues")
    until(lambda: len(lines(work)) == 6, "all lines, each once")
    assert lines(work) == [line(1, 1), line(1, 2), line(1, 3), line(2, 4), line(2, 5), line(3, 7)]
    for statement, kind, code in (
        (f"ALTER JOB '{back}' COMMIT", RunError, "RUN067"),
        (f"ALTER JOB '{back}' USING PLAN 'x' WITH ('shado' = 'true')", OptionError, "OPT104"),
        (f"ALTER JOB '{back}' USING PLAN 'x' WITH ('shadow' = 'ja')", OptionError, "OPT105"),
    ):
        with pytest.raises(kind) as error:
            env.execute_sql(statement)
        assert error.value.code == code
