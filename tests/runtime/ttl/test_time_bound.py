"""A TTL on operators that drop their state by time: windows, interval joins, OVER with a range, sorts.

The story: at 0 s on the clock a row is written to the state, at 12 s another one comes for the same window, interval or
frame, and at 13 s a row with a far later event time closes it. What is printed tells whether the first row was still
there at 12 s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import PlanError
from stateplan.connectors.print import format_rows
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.registry import node_classes
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import set_ttls
from stateplan.plans.selectors import select_states
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from tests.runtime.kernels.support import fewer
from tests.runtime.ttl.ttl_plays import COLUMNS, START, compiled
from tests.support.local import LocalRun, rows_at

Event = tuple[Any, ...]
"""A table, the values of its columns, and the event time of the row in seconds."""


@dataclass(frozen=True)
class Kind:
    """An operator, the query that has it, the rows of the story, and its lines with and without the first row."""

    query: str
    sink: str
    node: str
    first: Event
    second: Event
    found: list[str]
    lost: list[str]
    slot: int = 0
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


SUM = "SELECT k, CAST(SUM(v) AS INT) FROM TABLE({window}) GROUP BY k, window_start, window_end"
MINUTE = "TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
HOP = "HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)"
SESSION = "SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
NEAR = "FROM a {join} JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' MINUTE AND b.ts + INTERVAL '1' MINUTE"
JOINED = (
    f"SELECT l.k, l.v, r.w FROM (SELECT * FROM TABLE({MINUTE.format(table='a')})) AS l "
    f"FULL JOIN (SELECT * FROM TABLE({MINUTE.format(table='b')})) AS r "
    "ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
)
OVER = (
    "SELECT k, CAST(SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) "
    "AS INT) FROM a"
)
BEST = (
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end ORDER BY {order}) AS n "
    f"FROM TABLE({MINUTE.format(table='a')})) WHERE n <= {{count}}"
)
MATCHED = (
    "SELECT k, s FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES X.v + Y.v AS s "
    "AFTER MATCH SKIP PAST LAST ROW PATTERN (X Y) DEFINE X AS X.v = 5, Y AS Y.v = 7) AS m"
)
ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
PAIR = "k INT, v INT"
A, B = ("a", 1, 0, 5, 0), ("a", 1, 0, 7, 20)

KINDS = {
    "window": Kind(
        SUM.format(window=MINUTE.format(table="a")), PAIR, "window-aggregate", A, B, ["+I[1, 12]"], ["+I[1, 7]"],
        options=ONE_PHASE,
    ),
    "window in two phases": Kind(
        SUM.format(window=MINUTE.format(table="a")), PAIR, "global-window-aggregate", A, B, ["+I[1, 12]"], ["+I[1, 7]"]
    ),
    "hopping window": Kind(
        SUM.format(window=HOP), PAIR, "global-window-aggregate", A, ("a", 1, 0, 7, 40),
        ["+I[1, 5]", "+I[1, 12]", "+I[1, 7]"], ["+I[1, 7]", "+I[1, 7]"],
    ),
    "session": Kind(SUM.format(window=SESSION), PAIR, "window-aggregate", A, B, ["+I[1, 12]"], ["+I[1, 7]"]),
    "rows of sessions": Kind(
        f"SELECT k, v FROM TABLE({SESSION})", PAIR, "window-table-function", A, B, ["+I[1, 5]", "+I[1, 7]"],
        ["+I[1, 7]"],
    ),
    "GROUP BY TUMBLE": Kind(
        "SELECT k, CAST(SUM(v) AS INT) FROM a GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)", PAIR,
        "group-window-aggregate", A, B, ["+I[1, 12]"], ["+I[1, 7]"],
    ),
    "window join, left": Kind(
        JOINED, "k INT, v INT, w INT", "window-join", A, ("b", 1, 3, 20), ["+I[1, 5, 3]"], ["+I[null, null, 3]"]
    ),
    "window join, right": Kind(
        JOINED, "k INT, v INT, w INT", "window-join", ("b", 1, 3, 20), A, ["+I[1, 5, 3]"], ["+I[1, 5, null]"], slot=1
    ),
    "window rank": Kind(
        BEST.format(order="v", count=2), PAIR, "window-rank", A, B, ["+I[1, 5]", "+I[1, 7]"], ["+I[1, 7]"]
    ),
    "window deduplication": Kind(
        BEST.format(order="ts", count=1), PAIR, "window-deduplicate", A, B, ["+I[1, 5]"], ["+I[1, 7]"]
    ),
    "interval join, left": Kind(
        f"SELECT a.k, v, w {NEAR.format(join='FULL')}", "k INT, v INT, w INT", "interval-join", A, ("b", 1, 3, 20),
        ["+I[1, 5, 3]"], ["+I[null, null, 3]"],
    ),
    "interval join, right": Kind(
        f"SELECT a.k, v, w {NEAR.format(join='FULL')}", "k INT, v INT, w INT", "interval-join", ("b", 1, 3, 20), A,
        ["+I[1, 5, 3]"], ["+I[1, 5, null]"], slot=1,
    ),
    "match": Kind(MATCHED, PAIR, "match", A, B, ["+I[1, 12]"], []),
}  # fmt: skip


class Timed:
    """A plan over the tables of the plays, whose micro-batches have both a clock and event times."""

    def __init__(self, plan: PlanDocument, folder: Path) -> None:
        self.folder, self.number, self.lines = folder, 0, list[str]()
        self.local = LocalRun(translate(plan.graph, {}, key_groups=1))

    def go_on(self, plan: PlanDocument) -> None:
        self.local = self.local.continue_with(translate(plan.graph, {}, key_groups=1))

    def batch(self, second: float, rows: Sequence[Event]) -> list[str]:
        """What one micro-batch prints that comes at ``second``."""
        self.number += 1
        given: dict[int, list[Any]] = {}
        for i, source in enumerate(self.local.graph.sources):
            reader: Any = source.reader
            name = Path(reader.path).stem
            lines = []
            for table, *values, event in rows:
                if table == name:
                    at = (START + timedelta(seconds=event)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
                    row = {**dict(zip(COLUMNS[name], values, strict=True)), "ts": at, "@at": self.number}
                    lines.append(json.dumps(row) + "\n")
            (self.folder / f"{name}.json").write_text("".join(lines))
            given[i] = rows_at(reader, self.number) if lines else []
        (frames,) = self.local.batch(given, 1_000_000 + int(second * 1000))
        (sink,) = self.local.graph.sinks
        found = [line for frame in frames for line in format_rows(frame, [t for _, t in sink.columns], None)]
        self.lines += found
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plays")


FAR = [("a", 99, 0, 0, 3000), ("b", 99, 0, 3000)]


def plan_of(kind: Kind, folder: Path) -> PlanDocument:
    return compiled(kind.query, kind.sink, tuple(kind.options.items()), str(folder))


def with_ttl(kind: Kind, folder: Path, ttl: str | None) -> PlanDocument:
    plan = PlanDocument.parse(plan_of(kind, folder).text)
    if ttl is not None:
        node = [n for n in plan.graph.nodes if n.title == kind.node][-1]
        set_ttls(plan, {f"{kind.node}.{node.state_names[kind.slot]}": ttl})
    return plan


@pytest.mark.parametrize(
    ("before", "after", "there"),
    [
        (None, None, True),
        ("20 s", "20 s", True),
        ("10 s", "10 s", False),
        (None, "10 s", False),  # switched on: the row is as old as it is
        ("10 s", "0 ms", True),  # switched off: what is still there is found
        ("20 s", "10 s", False),
        ("10 s", "20 s", True),
    ],
    ids=["none", "long", "short", "on", "off", "shortened", "lengthened"],
)
@pytest.mark.parametrize("name", KINDS)
def test_story(name: str, before: str | None, after: str | None, there: bool, folder: Path) -> None:
    kind = KINDS[name]
    play = Timed(with_ttl(kind, folder, before), folder)
    play.batch(0, [kind.first])
    play.go_on(with_ttl(kind, folder, after))
    play.batch(12, [kind.second])
    play.batch(13, FAR)
    assert [line for line in play.lines if "99" not in line] == (kind.found if there else kind.lost)


def test_rows_refresh_their_session(tmp_path: Path) -> None:
    """Also one that is in the middle of it."""
    play = Timed(with_ttl(KINDS["session"], tmp_path, "10 s"), tmp_path)
    for second, event in ((0, 0), (8, 30), (16, 10), (24, 20)):
        play.batch(second, [("a", 1, 0, 1, event)])
    play.batch(30, FAR)
    assert play.lines == ["+I[1, 4]"]


def test_a_frame_with_a_range_forgets(tmp_path: Path) -> None:
    kind = Kind(OVER, PAIR, "over-aggregate", A, B, ["+I[1, 5]", "+I[1, 12]"], ["+I[1, 5]", "+I[1, 7]"])
    for ttl, lines in ((None, kind.found), ("20 s", kind.found), ("10 s", kind.lost)):
        play = Timed(with_ttl(kind, tmp_path, ttl), tmp_path)
        for second, event, value in ((0, 0, 5), (12, 20, 7)):
            play.batch(second, [("a", 1, 0, value, event)])
            play.batch(second, [("a", 99, 0, 0, event + 1)])
        assert [line for line in play.lines if "99" not in line] == lines


DELAY = " - INTERVAL '1' MINUTE"


def test_what_waits_for_a_frame_is_kept(folder: Path) -> None:
    """As in Flink a partition with rows that wait for the watermark does not expire."""
    plan = PlanDocument.parse(compiled(OVER, PAIR, (), str(folder), DELAY).text)
    set_ttls(plan, {"over-aggregate": "10 s"})
    play = Timed(plan, folder)
    play.batch(0, [A])
    play.batch(60, [B])
    play.batch(61, FAR)
    assert play.lines == ["+I[1, 5]", "+I[1, 12]"]


def test_rows_that_wait_to_be_sorted(folder: Path) -> None:
    plan = PlanDocument.parse(compiled("SELECT k, v FROM a ORDER BY ts", PAIR, (), str(folder), DELAY).text)
    for ttl, lines in ((None, ["+I[1, 5]", "+I[1, 7]"]), ("20 s", ["+I[1, 5]", "+I[1, 7]"]), ("10 s", ["+I[1, 7]"])):
        if ttl is not None:
            set_ttls(plan, {"temporal-sort": ttl})
        play = Timed(plan, folder)
        play.batch(0, [A])
        play.batch(12, [B])
        play.batch(13, FAR)
        assert play.lines == lines
        assert play.batch(14, [("a", 1, 0, 9, 15), ("a", 1, 0, 8, 4000)]) == ["+I[99, 0]"], "what was sorted lasts"


def test_only_the_side_with_the_ttl_forgets(tmp_path: Path) -> None:
    """The number of the next row is not lost with one side, as rows of the other side would be overwritten."""
    kind = KINDS["interval join, left"]
    plan = with_ttl(kind, tmp_path, "10 s")
    play = Timed(plan, tmp_path)
    play.batch(0, [("a", 1, 0, 5, 0), ("b", 1, 1, 1), ("b", 1, 2, 2)])
    play.batch(20, [("b", 1, 3, 3)])
    assert play.batch(21, [("a", 1, 0, 6, 4)]) == ["+I[1, 6, 1]", "+I[1, 6, 2]", "+I[1, 6, 3]"]


EVENTS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 9), st.integers(0, 59)), max_size=4),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=8,
)


@fewer(0.25)
@given(EVENTS, st.sampled_from([0, 6, 12]), st.sampled_from(["window", "window in two phases", "GROUP BY TUMBLE"]))
def test_windows_against_sums_that_expire(folder: Path, batches: Any, ttl: int, name: str) -> None:
    """Each key and window is one sum, that begins anew when no row has come for the TTL."""
    play = Timed(with_ttl(KINDS[name], folder, f"{ttl} s"), folder)
    sums: dict[int, tuple[int, int]] = {}
    second = 0
    for rows, pause in batches:
        second += pause
        play.batch(second, [("a", k, 0, v, event) for k, v, event in rows])
        for k in {k for k, _, _ in rows}:
            before, at = sums.get(k, (0, second))
            alive = ttl == 0 or at + ttl > second
            sums[k] = (before if alive else 0) + sum(v for other, v, _ in rows if other == k), second
    # Event times of one batch move the watermark, which is never past the end of the one window.
    play.batch(second + 1, FAR)
    left = {k: total for k, (total, at) in sums.items() if ttl == 0 or at + ttl > second + 1}
    assert sorted(line for line in play.lines if "99" not in line) == sorted(f"+I[{k}, {s}]" for k, s in left.items())


def hinted(sql: str, **options: str) -> PlanDocument:
    environment = TableEnvironment.create()
    for key, value in options.items():
        environment.get_config().set(key.replace("__", "-").replace("_", "."), value)
    for table, column in (("a", "v"), ("b", "w")):
        environment.execute_sql(
            f"CREATE TABLE {table} (k INT, {column} INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
            "WITH ('connector' = 'datagen')"
        )
    environment.execute_sql("CREATE TABLE snk (k INT, v INT) WITH ('connector' = 'print')")
    return PlanDocument.parse(environment.compile_plan_sql(sql).as_json_string())


def ttls(plan: PlanDocument, title: str) -> list[tuple[str, str]]:
    (node,) = [n for n in json.loads(plan.text)["nodes"] if n["type"].startswith(f"stream-exec-{title}_")]
    return [(entry["name"], entry["ttl"]) for entry in node.get("state", ())]


WINDOWED = "SELECT {hint} k, CAST(SUM(v) AS INT) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' HOUR)) AS t "
NEAR_SQL = "SELECT {hint} a.k, w FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts"


@pytest.mark.parametrize(
    ("select", "hint", "title", "expected"),
    [
        (WINDOWED + "GROUP BY k, window_start, window_end", "'t' = '3 h'", "global-window-aggregate", ["3 h"]),
        ("SELECT {hint} k, SUM(v) FROM a GROUP BY k, HOP(ts, INTERVAL '1' HOUR, INTERVAL '2' HOUR)", "'a' = '3 h'",
         "group-window-aggregate", ["3 h"]),
        (NEAR_SQL, "'b' = '2 h'", "interval-join", ["0 ms", "2 h"]),
        (NEAR_SQL, "'a' = '1 h', 'b' = '2 h'", "interval-join", ["1 h", "2 h"]),
        ("SELECT {hint} k, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND "
         "CURRENT ROW) FROM a", "'a' = '2 h'", "over-aggregate", ["2 h"]),
        ("SELECT {hint} k, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM a", "'a' = '2 h'", "over-aggregate", ["2 h"]),
        (f"SELECT {{hint}} k, v FROM TABLE({SESSION}) AS s", "'s' = '2 h'", "window-table-function", ["2 h"]),
        (MATCHED.replace("SELECT", "SELECT {hint}"), "'m' = '2 h'", "match", ["2 h"]),
        ("SELECT {hint} k, CAST(ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS INT) FROM a",
         "'a' = '2 h'", "over-aggregate", ["2 h"]),
        ("SELECT {hint} k, CAST(RANK() OVER (PARTITION BY k ORDER BY v) AS INT) FROM a",
         "'a' = '2 h'", "over-aggregate", ["2 h"]),
    ],
)  # fmt: skip
def test_hints(select: str, hint: str, title: str, expected: list[str]) -> None:
    assert ttls(hinted(f"INSERT INTO snk {select.format(hint='')}"), title) == []
    plan = hinted(f"INSERT INTO snk {select.format(hint=f'/*+ STATE_TTL({hint}) */')}")
    assert [ttl for _, ttl in ttls(plan, title)] == expected
    (node,) = [n for n in plan.graph.nodes if n.title == title]
    assert [c.origin for c in compiled_ttls(node) if c.ttl] == ["hint"] * sum(t != "0 ms" for t in expected)


def test_a_list_from_a_hint_is_where_the_ttl_of_over_is_edited() -> None:
    """Without a list it is in the configuration, where Flink reads it."""
    over = "SELECT {hint} k, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM a"
    plain = hinted(f"INSERT INTO snk {over.format(hint='')}")
    hint = "/*+ STATE_TTL('a' = '2 h') */"
    plan = hinted(f"INSERT INTO snk {over.format(hint=hint)}")
    for document, lists in ((plain, []), (plan, [("overState", "5 h")])):
        set_ttls(document, {"over-aggregate": "5 h"})
        assert [s.ttl for s in select_states(document, "over-aggregate")] == [5 * 3_600_000]
        assert ttls(document, "over-aggregate") == lists


def test_the_option_gives_them_a_ttl_and_that_of_the_job_does_not() -> None:
    sql = f"INSERT INTO snk {NEAR_SQL.format(hint='')}"
    assert ttls(hinted(sql, table_exec_state_ttl="1 d"), "interval-join") == []
    plan = hinted(sql, table_exec_time__bound__state_ttl="1 d")
    assert ttls(plan, "interval-join") == [("leftState", "1 d"), ("rightState", "1 d")]
    assert {s.source_text for s in select_states(plan, "interval-join.*")} == {
        "from the option table.exec.time-bound-state.ttl"
    }


def test_all_states_are_those_with_a_ttl() -> None:
    """What time alone drops is not meant by ``*``; it has to be named."""
    plan = hinted(f"INSERT INTO snk {NEAR_SQL.format(hint='')}")
    with pytest.raises(PlanError) as error:
        select_states(plan, "*")
    assert error.value.code == "PLAN104"
    assert [(s.ttl_text, s.source_text) for s in select_states(plan, "interval-join.*")] == [
        ("no ttl", "time drops it")
    ] * 2
    set_ttls(plan, {"interval-join.left": "2 h"})
    assert ttls(plan, "interval-join") == [("leftState", "2 h"), ("rightState", "0 ms")]
    assert [s.ttl_text for s in select_states(plan, "*")] == ["ttl 2 h", "never expires"]


def test_they_age_from_the_last_write_only() -> None:
    plan = hinted(f"INSERT INTO snk {NEAR_SQL.format(hint='')}", table_exec_time__bound__state_ttl="1 d")
    data = json.loads(plan.text)
    (node,) = [n for n in data["nodes"] if n["type"] == "stream-exec-interval-join_1"]
    node["state"][0]["updateType"] = "OnReadAndWrite"
    with pytest.raises(PlanError) as error:
        PlanDocument.parse(json.dumps(data))
    assert error.value.code == "PLAN192" and "leftState of interval-join" in error.value.message


def test_every_operator_that_keeps_state_has_a_ttl() -> None:
    """A node names its states, or keeps none."""
    for cls in node_classes().values():
        assert not cls.KEEPS_STATE or cls.STATE_NAMES or "state_names" in vars(cls), cls
