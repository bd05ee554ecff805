"""ALTER JOB ... WITH ('shadow' = 'true'): a plan runs beside that of a job, and takes its place or goes again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stateplan.common.errors import OptionError, RunError
from stateplan.session.environment import TableEnvironment
from stateplan.session.results import TableResult
from tests.support.arriving import COUNTS, Work, start, until

pytestmark = pytest.mark.spark

LINES = "INSERT INTO lines SELECT k, v FROM arriving"
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


def begin(work: Work, env: TableEnvironment) -> str:
    """A job with a shadow. Returns its id."""
    work.add("a", (1, 2, "00:00:00"), (2, 5, "00:00:01"))
    job = start(env, statements(OLD))
    until(lambda: work.holds() == {(1, 1, 2), (2, 1, 5)}, "the first rows")
    plan = work.folder / "new.json"
    env.compile_plan_sql(statements(NEW)).write_to_file(plan)
    shadow = env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}' WITH ('shadow' = 'true')")
    work.add("b", (1, 3, "00:00:02"), (2, 4, "00:00:03"))
    until(lambda: work.holds() == {(1, 2, 5), (2, 2, 9)}, "the old plan writes")
    until(lambda: lines(work) == [line(1, 2), line(1, 3), line(2, 4), line(2, 5)], "the old plan writes lines")
    until(lambda: "no new input" not in report(env, id_of(shadow))[0], "the figures of the micro-batch")
    report_lines = report(env, id_of(shadow))
    assert report_lines[0].startswith("runs the old plan and a shadow of the new one: ")
    figures = {words[1]: words for words in map(str.split, report_lines) if words[:1] == ["the"]}
    assert figures["old"][3:5] == ["2", "6"] and figures["new"][3:5] == ["2", "5"], "rows read, and changes"
    at = report_lines.index("lines: 1 row differs, 1 equal")
    assert report_lines[at + 1] == '  only old   +I {"k": 1, "v": 3}'
    at = report_lines.index("counts: 2 rows differ, 0 equal")
    rows = ['{"k": 1, "n": 2, "s": 5}', '{"k": 1, "n": 2, "s": 3}']
    assert report_lines[at + 1] == f"  different  {rows[0]}  became  {rows[1]}"
    return id_of(shadow)


def test_a_shadow_takes_the_place_of_the_plan(work: Work) -> None:
    env = session(work)
    shadowed = begin(work, env)
    committed = env.execute_sql(f"ALTER JOB '{shadowed}' COMMIT")
    assert any(note.startswith("switched in ") for note in committed.notes)
    work.add("c", (1, 1, "00:00:04"), (2, 7, "00:00:05"))
    until(lambda: line(2, 7) in lines(work), "the new plan writes lines")
    assert lines(work) == [line(1, 2), line(1, 3), line(2, 4), line(2, 5), line(2, 7)], "the filter of the new plan"
    until(lambda: (2, 3, 7) in [tuple(after.values()) for _, after in work.changes("counts") if after], "its maximum")
    statuses = {row[0]: row[2] for row in env.execute_sql("SHOW JOBS").collect()}
    assert statuses.pop(id_of(committed)) == "RUNNING" and set(statuses.values()) == {"FINISHED"}


def test_a_shadow_goes_again(work: Work) -> None:
    env = session(work)
    shadowed = begin(work, env)
    with pytest.raises(RunError) as error:
        env.execute_sql(f"ALTER JOB '{shadowed}' USING PLAN '{work.folder / 'new.json'}'")
    assert error.value.code == "RUN067"
    back = id_of(env.execute_sql(f"ALTER JOB '{shadowed}' ROLLBACK"))
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
