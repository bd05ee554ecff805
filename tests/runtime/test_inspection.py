"""Checkpoints as the commands that look at them see them, without Spark: what is refused, what states and columns are
called, which state a selector means, and how values of keys are read."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from stateplan.cli.app import app
from stateplan.cli.exit_codes import ExitCode
from stateplan.common.errors import CheckpointError, OptionError, PlanError, StateplanError
from stateplan.common.readable import ago
from stateplan.plans.state import CheckpointReader
from stateplan.plans.state.keys import parse_keys, row_filters
from stateplan.plans.state.show import StateFigures, WhatIf, report, to_json
from stateplan.runtime.checkpoint.live_ttl import Setting, StateTtl, TtlRequest, editing
from stateplan.runtime.inspect.inspection import TableState
from stateplan.runtime.inspect.state_figures import Aged, TableFigures
from stateplan.runtime.inspect.stored_tables import stored_tables
from stateplan.runtime.kernel import StateTable, own_columns
from stateplan.runtime.translate import translate
from tests.runtime.join_checkpoints import BOTH, JOIN, checkpoint

RANKED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC) AS n FROM Orders"
NUMBERED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY pt) AS n FROM Orders"

OUTER = ("a INT, b STRING", f"SELECT o.id, carrier FROM {BOTH.replace('JOIN', 'LEFT JOIN')}")
GROUPS = (
    "a STRING, b BIGINT, c DECIMAL(38, 2), d BIGINT",
    "SELECT customer, COUNT(*), SUM(price), COUNT(DISTINCT id) FROM Orders GROUP BY customer",
)
LATEST = (
    "a STRING, b INT, c STRING",
    f"SELECT carrier, AVG(o.id), MAX(customer) FROM {BOTH.replace('JOIN', 'LEFT JOIN')} GROUP BY carrier",
)
FIRST = ("a INT, b STRING", f"SELECT id, customer FROM ({NUMBERED}) WHERE n = 1")
TOP = ("a STRING, b DECIMAL(10, 2)", f"SELECT customer, price FROM ({RANKED}) WHERE n <= 3")
INTERVAL = ("a INT, b STRING", f"SELECT o.id, carrier FROM {BOTH} AND o.ts BETWEEN p.ts - INTERVAL '1' HOUR AND p.ts")
OVER = ("a INT, b BIGINT", "SELECT id, COUNT(*) OVER (PARTITION BY customer ORDER BY ts) FROM Orders")


def labels(reader: CheckpointReader) -> dict[str, dict[str, list[str]]]:
    return {s.selector: {t.name: list(t.labels.values()) for t in s.tables} for s in reader.states}


# ---- what is refused -------------------------------------------------------------------------------------------


def refused(folder: Path, **how: int) -> CheckpointError:
    with pytest.raises(CheckpointError) as error:
        CheckpointReader.read(folder, **how)
    return error.value


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-1").mkdir()
    error = refused(tmp_path / "checkpoint1")
    assert (error.code, error.hint) == ("CKPT001", "did you mean 'checkpoint-1'?")
    checkpoint(tmp_path / "checkpoint-1", JOIN)
    error = refused(tmp_path)
    assert (error.code, error.hint) == ("CKPT002", f"did you mean '{tmp_path / 'checkpoint-1'}'?")


def test_a_checkpoint_without_a_finished_micro_batch(tmp_path: Path) -> None:
    error = refused(checkpoint(tmp_path, JOIN, batches=0))
    assert error.code == "CKPT041"
    assert refused(checkpoint_at(tmp_path / "other", layouts=[])).code == "CKPT041"


def checkpoint_at(folder: Path, **facts: Any) -> Path:
    folder.mkdir()
    checkpoint(folder, JOIN)
    file = folder / "stateplan.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))
    return folder


def test_formats(tmp_path: Path) -> None:
    error = refused(checkpoint_at(tmp_path / "later", format=99))
    assert (error.code, error.hint) == ("CKPT005", "use the version of stateplan that wrote it")
    assert refused(checkpoint_at(tmp_path / "damaged", layouts=7)).code == "CKPT005"


@pytest.mark.parametrize(
    ("file", "text"), [("stateplan.json", "{"), ("plan.json", "[]"), ("spark/offsets/0", "v1"), ("spark/offsets/0", "")]
)
def test_damaged_files_are_named(tmp_path: Path, file: str, text: str) -> None:
    folder = checkpoint(tmp_path, JOIN)
    (folder / file).write_text(text)
    error = refused(folder)
    assert error.code == "CKPT005"
    assert str(folder / file) in error.message


def test_a_micro_batch_that_is_not_there(tmp_path: Path) -> None:
    error = refused(checkpoint(tmp_path, JOIN, batches=3), batch=7)
    assert (error.code, error.expected) == ("CKPT043", "one of 0 to 2")
    done = CliRunner().invoke(app, ["state", "show", str(tmp_path), "--batch", "7"])
    assert done.exit_code == ExitCode.CHECKPOINT
    assert "[CKPT043]" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "x", "--at", "yesterday"],
        ["show", "x", "--plot", "a.svg", "--batch", "1"],
        ["read", "x", "join", "--format", "parquet"],
        ["read", "x", "join", "--overwrite"],
        ["read", "x", "join", "--limit", "-1"],
        ["read", "x", "join", "-o", "rows.csv"],
        ["show", "x", "-w", "join"],
        ["show", "x", "-D", "spark.master"],
    ],
)
def test_wrong_command_lines(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["state", *arguments])
    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["read", "join.left", "-k", "id"], ExitCode.USAGE, "[OPT404] -k 'id' is not a column and its value"),
        (["read", "join.left", "-k", "idd=1"], ExitCode.BAD_INPUT, "hint: did you mean 'id'?"),
        (["read", "join.left", "-k", "id=one"], ExitCode.BAD_INPUT, "[CKPT049] 'one' is not a value"),
        (["read", "join.left", "--table", "row"], ExitCode.BAD_INPUT, "[CKPT044] "),
        (["read", "join"], ExitCode.BAD_INPUT, "[CKPT046] "),
        (["read"], ExitCode.BAD_INPUT, "expected: join.left, join.right"),
        (["read", "jion"], ExitCode.BAD_INPUT, "[PLAN101] "),
        (["show", "--plot", "sizes.png"], ExitCode.USAGE, "[OPT403] 'sizes.png' does not end in .svg"),
    ],
)
def test_arguments_that_do_not_fit_the_checkpoint(
    tmp_path: Path, arguments: list[str], exit_code: ExitCode, said: str
) -> None:
    command, *rest = arguments
    done = CliRunner().invoke(app, ["state", command, str(checkpoint(tmp_path, JOIN)), *rest])
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert said in done.stderr


# ---- what now is ------------------------------------------------------------------------------------------------


def test_ages_count_from_the_last_instant_played(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, JOIN, batches=2)
    snapshot = CheckpointReader.read(folder).snapshot
    assert (snapshot.batch, snapshot.now, snapshot.clock, snapshot.batch_time) == (1, 5_000, "replay clock", 1001)
    assert CheckpointReader.read(folder, batch=0).snapshot.now == 0
    given = CheckpointReader.read(folder, at=77).snapshot
    assert (given.now, given.clock) == (77, "given")
    assert snapshot.newer() is None
    for name in ("offsets", "commits"):
        (folder / "spark" / name / "2").write_text((folder / "spark" / name / "1").read_text().replace(":1}", ":2}"))
    newer = snapshot.newer()
    assert newer is not None
    assert (newer.batch, newer.now) == (2, 60_000)


# ---- what states and columns are called --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (JOIN, {"join.left": {"rows": ["id"]}, "join.right": {"rows": ["id", "carrier"]}}),
        (OUTER, {"join.left": {"rows": ["id", "matches", "copies"]}, "join.right": {"rows": ["id", "carrier"]}}),
        (
            GROUPS,
            {
                "group-aggregate": {
                    "rows": [
                        "customer",
                        "COUNT(*)",
                        "SUM(price) sum",
                        "SUM(price) count",
                        "COUNT(DISTINCT id)",
                    ],
                    "distinct2": ["customer", "id"],
                }
            },
        ),
        (FIRST, {"deduplicate": {"rows": ["id"]}}),
        (TOP, {"rank": {"rows": ["customer", "price", "arrival"]}}),
        (
            INTERVAL,
            {
                "interval-join.left": {"leftCache": ["id", "ts", "time", "due", "n", "matched"], "next": ["n"]},
                "interval-join.right": {"rows": ["id", "carrier", "ts", "time", "due", "n", "matched"]},
            },
        ),
    ],
    ids=["join", "outer", "groups", "first", "top", "interval"],
)
def test_names(tmp_path: Path, query: tuple[str, str], expected: dict[str, dict[str, list[str]]]) -> None:
    assert labels(CheckpointReader.read(checkpoint(tmp_path, query))) == expected


@pytest.mark.parametrize("query", [JOIN, OUTER, GROUPS, LATEST, FIRST, TOP, INTERVAL, OVER])
def test_what_the_checkpoint_notes_of_tables_is_enough(tmp_path: Path, query: tuple[str, str]) -> None:
    """As for an operator whose functions this session does not know."""
    reader = CheckpointReader.read(checkpoint(tmp_path, query))
    kernels = {o.node: o.kernel for o in translate(reader.document.graph, {}, 4).operators}
    for state in reader.states:
        noted = stored_tables(state.operator.entry.tables)
        made = kernels[state.operator.node.id].tables
        assert [(t.name, t.slot, t.lookup, t.identity, t.schema) for t in noted] == [
            (t.name, t.slot, t.lookup, t.identity, t.schema) for t in made
        ]


def test_an_operator_whose_function_this_session_does_not_know(tmp_path: Path) -> None:
    query = ("a STRING, b BIGINT, c INT", "SELECT customer, COUNT(*), spread(id) FROM Orders GROUP BY customer")
    found = labels(CheckpointReader.read(checkpoint(tmp_path, query)))
    (tables,) = found.values()
    assert tables["rows"][:3] == ["customer", "COUNT(*)", "spread(id)"]


# ---- selectors --------------------------------------------------------------------------------------------------


def test_selectors(tmp_path: Path) -> None:
    reader = CheckpointReader.read(checkpoint(tmp_path, JOIN, INTERVAL, GROUPS))

    def found(*texts: str) -> list[str]:
        return [s.selector for s in reader.select(*texts)]

    near = ["interval-join.left", "interval-join.right"]
    assert found() == ["join.left", "join.right", *near, "group-aggregate"]
    assert found("join") == ["join.left", "join.right"], "to look at, all states of an operator"
    assert found("rightState", "join.left") == ["join.left", "join.right"]
    assert found("interval-join") == near, "only time drops it"
    assert found("interval-join[*]", "group-aggregate") == [*near, "group-aggregate"]
    assert reader.select_one("group-aggregate").main.name == "rows"
    with pytest.raises(PlanError) as error:
        reader.select("jion.left")
    assert error.value.code == "PLAN101"
    with pytest.raises(CheckpointError) as several:
        reader.select_one("join")
    assert (several.value.code, several.value.expected) == ("CKPT046", "join.left, join.right")
    with pytest.raises(CheckpointError) as table:
        reader.table(reader.select_one("group-aggregate"), "distinct")
    assert (table.value.code, table.value.hint) == ("CKPT044", "did you mean 'distinct2'?")


def test_live_ttls_hold_from_their_micro_batch_on(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, JOIN, batches=3)
    left = CheckpointReader.read(folder).select_one("join.left")
    uid = left.operator.entry.uid
    settings = (Setting(3_600_000, 0, "plan", 0), Setting(60_000, 2, "live", 0))
    with editing(folder) as record:
        record[uid, 0] = StateTtl(uid, 0, "join.left", 3_600_000, settings, TtlRequest(5_000, 0))
    assert [CheckpointReader.read(folder, batch=n).states[0].config.ttl for n in (0, 1, 2)] == [3_600_000] * 2 + [
        60_000
    ]
    assert CheckpointReader.read(folder).states[1].config.ttl == 3_600_000


# ---- what is said ------------------------------------------------------------------------------------------------


def figures(rows: int, *aged: int) -> TableFigures:
    return TableFigures(
        runs=2, versions=rows + 1, bytes=100 * rows, rows=rows, rows_bytes=90.0 * rows, keys=rows,
        aged=[Aged(n, 90.0 * n) for n in aged], oldest=1_000, newest=4_000, times=[(1_000, 1), (4_000, 2)],
    )  # fmt: skip


def test_the_report(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, JOIN, INTERVAL, batches=2)
    uid = CheckpointReader.read(folder).states[0].operator.entry.uid
    with editing(folder) as record:
        settings = (Setting(3_600_000, 0, "plan", 0), Setting(60_000, 1, "live", 0))
        record[uid, 0] = StateTtl(uid, 0, "join.left", 3_600_000, settings, TtlRequest(5_000, 0))
    reader = CheckpointReader.read(folder)
    left, right, near, other = reader.states
    # of 10 rows 4 have expired, 5 will have in an hour, 7 in a day; under another TTL 6, 6, 6, under a third 1, 1, 1
    found = StateFigures(left, {"rows": figures(10, 4, 5, 7, 6, 6, 6, 1, 1, 1)})
    guesses = [WhatIf(found, 30_000, 3), WhatIf(found, 0, 6)]
    others = [StateFigures(right, {"rows": figures(3, 0, 0, 0)})]
    others += [StateFigures(state, {t.name: figures(1, 0, 0, 0) for t in state.tables}) for state in (near, other)]
    shown = report(reader.snapshot, reader.document, [found, *others], guesses, 4)

    lines = [" ".join(line.split()) for line in str(shown).splitlines()]
    assert lines[0].endswith("state after micro-batch 1, at 1970-01-01 00:00:05 UTC (the last instant played)")
    assert lines[1] == "4 states, 4 key groups, plan written by stateplan"
    assert "join.left 1 min 6 4 11 10 1000 B 4 s 1 s 1 s 1 3 2" in lines
    assert "interval-join.left none 2 0 4 1 200 B 4 s 1 s 1 s 0 0 4" in lines
    assert "interval-join.right none 1 0 2 1 100 B 4 s 1 s 1 s 0 0 2" in lines
    assert "total 12 4 21 15 1.6 KiB 4 s 1 s 1 s 1 3 10" in lines
    assert "join.left: 1 min since micro-batch 1, the plan says 1 h" in lines
    assert "join.left: 5 s from the next micro-batch on, as requested" in lines
    assert "join.left 1 min -> 30 s 2 180 B 0 6 -> 4 1 -> 0 3 -> 0" in lines
    assert "join.left 1 min -> never 0 0 B 3 6 -> 9 1 -> 0 3 -> 0" in lines
    assert any(line.startswith("brings back: ") for line in lines)

    data = to_json(shown)
    assert (data["total"]["liveRows"], data["total"]["expiredRows"], data["states"][0]["liveBytes"]) == (12, 4, 540)
    state = data["states"][0]
    assert (state["ttl"], state["source"], state["sinceBatch"], state["planTtl"], state["asked"]) == (
        "1 min", "live", 1, "1 h", "5 s",
    )  # fmt: skip
    assert (data["states"][2]["ttl"], data["states"][2]["source"]) == ("0 ms", "time")
    assert [(w["freedRows"], w["revivedRows"], w["liveRows"]) for w in data["whatIf"]] == [(2, 0, 4), (0, 3, 9)]
    assert json.loads(json.dumps(data)) == data


@pytest.mark.parametrize(
    ("now", "then", "text"),
    [
        (0, None, "-"),
        (5, 5, "0 s"),
        (10, 5, "5 ms"),
        (5_400_000, 0, "1.5 h"),
        (0, 3_000, "in 3 s"),
        (86_400_000, 0, "1 d"),
    ],
)
def test_ages_in_words(now: int, then: int | None, text: str) -> None:
    assert ago(now, then) == text


# ---- keys -------------------------------------------------------------------------------------------------------

SCHEMA: dict[str, pl.DataType] = {
    "c0": pl.Int32(),
    "c1": pl.String(),
    "c2": pl.Decimal(10, 2),
    "c3": pl.Datetime("ms"),
    "c4": pl.Datetime("ms", "UTC"),
    "c5": pl.Boolean(),
    "c6": pl.Binary(),
    "c7": pl.Date(),
    "c8": pl.Float64(),
}
TABLE = StateTable("t", 0, ("c0",), ("c0",), own_columns(SCHEMA))
KEYED = TableState(TABLE, "rows", {n: f"field{i}" for i, n in enumerate(SCHEMA)})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("field0", "5", 5),
        ("FIELD0", "-5", -5),
        ("field0", "null", None),
        ("field1", "a b", "a b"),
        ("field1", "'NULL'", "NULL"),
        ("field1", "'it''s'", "it's"),
        ("field1", "", ""),
        ("field2", "1.50", Decimal("1.50")),
        ("field3", "2026-01-31 08:00:00", datetime(2026, 1, 31, 8)),
        ("field4", "2026-01-31T08:00:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("field5", "TRUE", True),
        ("field6", "0aff", b"\x0a\xff"),
        ("field7", "2026-01-31", date(2026, 1, 31)),
        ("field8", "1e3", 1000.0),
    ],
)
def test_values_of_keys(name: str, text: str, value: object) -> None:
    (found,) = row_filters(KEYED, {name: text})
    assert found.value == value
    assert found.column == f"c{name[-1]}"


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("field0", "five", "CKPT049"),
        ("field0", "99999999999", "CKPT049"),
        ("field2", "x", "CKPT049"),
        ("field3", "tomorrow", "CKPT049"),
        ("field5", "maybe", "CKPT049"),
        ("field6", "xyz", "CKPT049"),
        ("feild0", "1", "CKPT048"),
    ],
)
def test_what_is_no_value(name: str, text: str, code: str) -> None:
    with pytest.raises(StateplanError) as error:
        row_filters(KEYED, {name: text})
    assert error.value.code == code
    assert error.value.expected


def test_columns_with_an_equals_sign() -> None:
    assert parse_keys(["COUNT(a = b)=5", "k = x=y"], ["COUNT(a = b)", "k"]) == {"COUNT(a = b)": "5", "k": "x=y"}
    with pytest.raises(OptionError) as error:
        parse_keys(["order_id"], ["order_id"])
    assert error.value.code == "OPT404"
