"""State tables of earlier micro-batches, changes between micro-batches, and what a catalog of state refuses; without
Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import StateplanError
from stateplan.plans.state.kept_batches import batch_at, commit_times
from stateplan.session.environment import TableEnvironment
from tests.plans.shown_state import START, Query, Shown
from tests.runtime.ttl.ttl_plays import KINDS, ROW
from tests.support.long_runs import LONG, share

AGGREGATE = Query(KINDS["group-aggregate"].query, ROW)
JOIN = Query(KINDS["join"].query, KINDS["join"].sink)
COLUMNS = "k, `SUM(v)`"

Rows = Counter[tuple[Any, ...]]


def rows_of(shown: Shown, table: str, columns: str = "*") -> Rows:
    return Counter(shown.sql(f"SELECT {columns} FROM s.job.{table}").iter_rows())


class History:
    """A checkpoint whose state was read after each micro-batch."""

    def __init__(self, folder: Path, query: Query, table: str, batches: int) -> None:
        self.shown = Shown(folder, query, batches=1)
        self.shown.open()
        self.table = table
        self.rows = [rows_of(self.shown, table)]
        for _ in range(batches - 1):
            self.shown.go_on()
            self.rows.append(rows_of(self.shown, table))

    def changed(self, start: int, end: int) -> Rows:
        """The rows before, with the changes applied that the table of changes has."""
        hint = f"/*+ OPTIONS('from-batch' = '{start}', 'to-batch' = '{end}') */"
        name = self.table.replace("`", "")
        rows = Counter(self.rows[start])
        rows = Counter(row[:-3] for row in rows.elements())
        for kind, *row in self.shown.sql(f"SELECT * FROM s.job.`{name}$changes` {hint}").iter_rows():
            rows[tuple(row[:-3])] += 1 if kind in ("+I", "+U") else -1
        assert min(rows.values(), default=0) >= 0, "a row was removed that was not there"
        return +rows


@pytest.fixture(scope="module", params=["group-aggregate", "join"])
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("history")
    if request.param == "join":
        return History(folder, JOIN, "`join.left`", 30)
    return History(folder, AGGREGATE, "`group-aggregate`", 30)


BATCHES = 100 if LONG else 50


def test_each_micro_batch_is_read_as_it_was(tmp_path: Path) -> None:
    """Of all of them in a long run, else of one in four."""
    history = History(tmp_path, AGGREGATE, "`group-aggregate`", BATCHES)
    assert len(set(map(str, history.rows))) > BATCHES / 2
    for batch in share(range(BATCHES), 4):
        assert rows_of(history.shown, f"`group-aggregate` FOR SYSTEM_TIME AS OF {batch}") == history.rows[batch]
    for batch in (0, 41, BATCHES - 1):
        time = f"TIMESTAMP '1970-01-01 00:{16 + (40 + batch) // 60}:{(40 + batch) % 60:02}.999'"
        assert rows_of(history.shown, f"`group-aggregate` FOR SYSTEM_TIME AS OF {time}") == history.rows[batch]


@given(data=st.data())
@settings(max_examples=25 if LONG else 10, deadline=None)
def test_changes_lead_from_one_micro_batch_to_another(history: History, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 29))
    end = data.draw(st.integers(start, 29))
    assert history.changed(start, end) == Counter(row[:-3] for row in history.rows[end].elements())


def test_changes_are_those_of_the_last_micro_batch_by_default(history: History) -> None:
    name = history.table.replace("`", "")
    hint = "/*+ OPTIONS('from-batch' = '28', 'to-batch' = '29') */"
    assert rows_of(history.shown, f"`{name}$changes`") == rows_of(history.shown, f"`{name}$changes` {hint}")


def test_two_micro_batches_are_joined(history: History) -> None:
    key = "k"
    rows = history.shown.sql(
        f"SELECT COUNT(*) AS n FROM s.job.{history.table} AS x "
        f"LEFT JOIN s.job.{history.table} FOR SYSTEM_TIME AS OF 0 AS y ON x.{key} = y.{key} WHERE y.{key} IS NULL"
    )
    before = {row[0] for row in history.rows[0]}
    assert rows["n"].sum() == sum(n for row, n in history.rows[29].items() if row[0] not in before)


def test_all_tables_of_a_statement_are_read_after_one_micro_batch(tmp_path: Path, monkeypatch: Any) -> None:
    shown = Shown(tmp_path, JOIN, batches=3)
    shown.open()
    table = shown.environment.sql_query("SELECT MAX(access_time) AS t FROM s.job.`join.left`")
    before = table.to_polars()["t"].max()
    shown.go_on()
    shown.go_on()
    assert shown.sql("SELECT MAX(access_time) AS t FROM s.job.`join.left`")["t"].max() > before


# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    shown = Shown(tmp_path_factory.mktemp("shown"), JOIN, batches=5)
    shown.open()
    for batch in (0, 1):
        shown.writer.lose(batch)
    return shown


@pytest.mark.parametrize(
    ("statement", "code", "text"),
    [
        ("SELECT * FROM s.job.`join.lft`", "CAT002", "did you mean 'join.left'"),
        ("SELECT * FROM s.jobs.`join.left`", "CAT004", "did you mean 'job'"),
        ("SELECT kk FROM s.job.`join.left`", "SQL100", "did you mean 'k'"),
        ("SELECT * FROM s.job.`join.left` FOR SYSTEM_TIME AS OF 1", "CKPT043", "one of 2 to 4"),
        ("SELECT * FROM s.job.`join.left` FOR SYSTEM_TIME AS OF 9", "CKPT043", "one of 2 to 4"),
        (
            "SELECT * FROM s.job.`join.left` FOR SYSTEM_TIME AS OF TIMESTAMP '1970-01-01 00:00:00'",
            "CKPT043",
            "one of 2 (1970-01-01 00:16:42 UTC) to 4 (1970-01-01 00:16:44 UTC)",
        ),
        ("SELECT * FROM s.job.`join.left` FOR SYSTEM_TIME AS OF 'x'", "SQL146", "a time or the number"),
        ("SELECT * FROM s.job.`join.left` FOR SYSTEM_TIME AS OF k", "SQL146", "only allowed after"),
        ("SELECT * FROM s.job.`join.left` /*+ OPTIONS('batch' = '0') */", "CKPT043", "one of 2 to 4"),
        ("SELECT * FROM s.job.`join.left` /*+ OPTIONS('bath' = '3') */", "OPT104", "did you mean 'batch'"),
        ("SELECT * FROM s.job.`join.left` /*+ OPTIONS('from-batch' = '3') */", "OPT104", "without $changes"),
        ("SELECT * FROM s.job.`join.left$changes` /*+ OPTIONS('from-batch' = '1') */", "CKPT043", "one of 2 to 4"),
        (
            "SELECT * FROM s.job.`join.left$changes` /*+ OPTIONS('from-batch' = '4', 'to-batch' = '3') */",
            "CKPT043",
            "one of 2 to 3",
        ),
        ("INSERT INTO s.job.`join.left` VALUES (1)", "CAT101", "cannot be written"),
        ("DROP TABLE s.job.`join.left`", "CAT110", "cannot drop tables"),
        ("ALTER TABLE s.job.`join.left` SET ('a' = 'b')", "CAT110", "cannot change tables"),
        ("ALTER TABLE s.job.`join.left` RENAME TO s.job.x", "CAT110", "cannot rename tables"),
        ("CREATE TABLE s.job.x (a INT) WITH ('connector' = 'datagen')", "CAT110", "cannot create tables"),
        ("CREATE DATABASE s.x", "CAT110", "cannot create databases"),
        ("DROP DATABASE s.job CASCADE", "CAT110", "cannot drop databases"),
        ("CREATE VIEW s.job.x AS SELECT 1", "CAT110", "cannot keep views"),
        ("CREATE CATALOG t WITH ('type' = 'state')", "OPT004", "'path'"),
        ("CREATE CATALOG t WITH ('type' = 'state', 'path' = '/nowhere')", "CKPT001", "/nowhere"),
    ],
)
def test_refusals_have_a_code(shown: Shown, statement: str, code: str, text: str) -> None:
    with pytest.raises(StateplanError) as error:
        list(shown.environment.execute_sql(statement).collect())
    assert error.value.code == code
    assert text in str(error.value)


def test_checkpoints_that_cannot_be_read_have_their_codes(tmp_path: Path) -> None:
    shown = Shown(tmp_path, JOIN, batches=2)
    environment = TableEnvironment.create()

    def refused() -> StateplanError:
        with pytest.raises(StateplanError) as error:
            environment.execute_sql(f"CREATE CATALOG s WITH ('type' = 'state', 'path' = '{shown.folder}')")
            query = "SELECT k FROM s.job.`join.left` UNION ALL SELECT k FROM s.job.`join.right`"
            list(environment.execute_sql(query).collect())
        if "s" in environment.list_catalogs():
            environment.execute_sql("DROP CATALOG s")
        return error.value

    for log in (shown.folder / "spark" / "state").rglob("2_*.changelog"):
        data = log.read_bytes()
        log.write_bytes(data.replace(b"ARROW1\0\0", b"ARROW2\0\0"))
    run = refused()
    assert run.code == "CKPT012"
    assert "join" in run.message and "key group" in run.message
    for log in (shown.folder / "spark" / "state").rglob("2_*.changelog"):
        log.write_bytes(log.read_bytes()[:-40])
    damaged = refused()
    assert damaged.code == "CKPT045"
    assert "2_w1-" in damaged.message
    for log in (shown.folder / "spark" / "state").rglob("2_*.changelog"):
        log.unlink()
    assert refused().code == "CKPT045"
    facts = shown.folder / "stateplan.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"format": 99}))
    other = refused()
    assert (other.code, other.hint) == ("CKPT005", "use the version of stateplan that wrote it")


def test_the_time_of_a_micro_batch_is_the_instant_that_it_played(shown: Shown) -> None:
    from stateplan.plans.state import CheckpointReader

    snapshot = CheckpointReader.read(shown.folder).snapshot
    assert commit_times(snapshot) == {batch: START + 1000 * batch for batch in (2, 3, 4)}
    assert [batch_at(snapshot, START + at) for at in (2000, 2999, 3000, 10**9)] == [2, 2, 3, 4]


def test_a_view_and_a_table_like_it_read_the_last_micro_batch(tmp_path: Path) -> None:
    shown = Shown(tmp_path, JOIN, batches=2)
    shown.open()
    shown.environment.execute_sql("CREATE TEMPORARY TABLE mine LIKE s.job.`join.left`")
    shown.environment.execute_sql("CREATE TEMPORARY VIEW v AS SELECT * FROM s.job.`join.left`")
    for _ in range(5):
        shown.go_on()
    rows = rows_of(shown, "`join.left`")
    assert Counter(shown.sql("SELECT * FROM mine").iter_rows()) == rows
    assert Counter(shown.sql("SELECT * FROM v").iter_rows()) == rows
