"""The formats of change events: both readers agree, what is written is what Flink writes, replay tables take them."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from connector_tables import cases, fields, make_decoder, make_encoder, read_all, replay_table, table
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import DataError
from stateplan.connectors.formats.change_formats import DebeziumJson
from stateplan.connectors.splits import FileSplit
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment

FORMATS = ["debezium-json", "canal-json", "maxwell-json", "ogg-json"]
COLUMNS = "a INT, b STRING, c ROW<b STRING>"


def test_rows_are_written_as_flink_writes_them(tmp_path: Path) -> None:
    count = 0
    for case in cases("encoded_events.jsonl"):
        count += 1
        path = tmp_path / "row.json"
        path.write_text(case["line"] + "\n")
        row = read_all(table("json"), fields(case["type"]), path)
        changes = pl.concat([row] * 4).with_columns(pl.Series(KIND, [0, 1, 2, 3], dtype=pl.Int8))
        encoder = make_encoder(table(case["format"]) | case["options"], fields(case["type"]))
        assert encoder.encode(changes).decode().splitlines() == case["events"]
        assert encoder.encode(row).decode().splitlines() == case["events"][:1]
    assert count == 24


@pytest.mark.parametrize("fmt", FORMATS)
def test_what_is_written_can_be_read(fmt: str, tmp_path: Path) -> None:
    rows = pl.DataFrame({"c0": [1, 2, 3, 4], "c1": ["x", None, '"', "}]"], "kind": [0, 1, 2, 3]}).cast(
        {"c0": pl.Int32, "kind": pl.Int8}
    )
    columns = fields("a INT, b STRING")
    path = tmp_path / "events.json"
    path.write_bytes(make_encoder(table(fmt), columns).encode(rows))
    assert read_all(table(fmt), columns, path).rows() == [(1, "x", 0), (2, None, 3), (3, '"', 0), (4, "}]", 3)]


KEYED = {
    "a": ("MAP<INT, STRING>", {"1": "a", "-2": None}, [{"key": 1, "value": "a"}, {"key": -2, "value": None}]),
    "b": ("MAP<DOUBLE, INT>", {"42.5": 1}, [{"key": 42.5, "value": 1}]),
    "c": ("MAP<DATE, INT>", {"2024-01-02": 1}, [{"key": date(2024, 1, 2), "value": 1}]),
    "d": ("MAP<ROW<x INT, y STRING>, INT>", {r'{"x":1,"y":"\""}': 3}, [{"key": {"x": 1, "y": '"'}, "value": 3}]),
    "e": ("MAP<ARRAY<INT>, BOOLEAN>", {"[1,null]": True}, [{"key": [1, None], "value": True}]),
    "f": ("MULTISET<INT>", {"7": 2}, [{"key": 7, "value": 2}]),
}


def test_maps_of_op_json_have_keys_of_any_type(tmp_path: Path) -> None:
    columns = fields(", ".join(f"{name} {kind}" for name, (kind, _, _) in KEYED.items()))
    path = tmp_path / "rows.json"
    line = json.dumps({"_op": "+I"} | {name: value for name, (_, value, _) in KEYED.items()}, separators=(",", ":"))
    path.write_text(line + "\n")
    rows = read_all(table("op-json"), columns, path)
    assert rows.drop(KIND).row(0) == tuple(found for _, _, found in KEYED.values())
    assert make_encoder(table("op-json"), columns).encode(rows).decode() == line + "\n"


@pytest.mark.parametrize("key", ['{"x":', "3", "[" * 100_000], ids=["no JSON", "no row", "deep"])
def test_a_key_that_does_not_fit_is_an_error(key: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"d": {key: 1}}) + "\n")
    with pytest.raises(DataError, match="DATA112"):
        read_all(table("op-json"), fields(f"d {KEYED['d'][0]}"), path)


ROWS = st.fixed_dictionaries(
    {"a": st.sampled_from([None, 1, 2]), "b": st.sampled_from([None, "x", 'null"}]', "y"])},
    optional={"c": st.sampled_from([None, {"b": "in"}, {"b": None}])},
)
OLDS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from([None, 5]),
        "b": st.sampled_from([None, "o", '"null']),
        "c": st.sampled_from([None, {"b": "was"}]),
    },
)
MAXWELL = st.one_of(
    st.fixed_dictionaries({"data": ROWS, "old": st.none(), "type": st.sampled_from(["insert", "delete"])}),
    st.fixed_dictionaries({"data": ROWS, "old": OLDS, "type": st.just("update")}),
)
CANAL = st.one_of(
    st.fixed_dictionaries(
        {"data": st.lists(ROWS, max_size=2), "type": st.sampled_from(["INSERT", "DELETE"]), "database": st.just("d")}
    ),
    st.lists(st.tuples(ROWS, OLDS), max_size=3).map(
        lambda pairs: {"data": [d for d, _ in pairs], "old": [o for _, o in pairs], "type": "UPDATE", "database": "e"}
    ),
    st.just({"data": None, "type": "CREATE", "database": "d"}),
)
OGG = st.one_of(
    st.fixed_dictionaries({"before": st.none(), "after": ROWS, "op_type": st.just("I")}),
    st.fixed_dictionaries({"before": ROWS, "after": ROWS, "op_type": st.just("U")}),
    st.fixed_dictionaries({"before": ROWS, "after": st.none(), "op_type": st.just("D")}),
)


def expected(event: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The changes of one event of Canal or Maxwell, read as Flink reads them."""

    def has(value: Any, name: str) -> bool:
        if isinstance(value, dict):
            return name in value or any(has(v, name) for v in value.values())
        return isinstance(value, list) and any(has(v, name) for v in value)

    kind = event["type"].upper()
    data, old = event.get("data"), event.get("old")
    out: list[tuple[Any, ...]] = []
    for i, row in enumerate(data if isinstance(data, list) else [data]):
        after = [row.get(n) if row else None for n in "abc"]
        if kind == "UPDATE":
            was = old[i] if isinstance(old, list) else old
            before = [was.get(n) for n in "abc"]
            for k, n in enumerate("abc"):
                if before[k] is None and not has(old, n):
                    before[k] = after[k]
            out.append((*before, 1))
        if kind != "CREATE":
            out.append((*after, {"INSERT": 0, "UPDATE": 2, "DELETE": 3}[kind]))
    return out


@given(st.lists(CANAL, max_size=6), st.booleans())
def test_canal_by_event(tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], only: bool) -> None:
    options = {"canal-json.database.include": "e|f"} if only else {}
    kept = [e for e in events if not only or e["database"] == "e"]
    assert both("canal-json", events, options, tmp_path_factory) == [row for e in kept for row in expected(e)]


@given(st.lists(MAXWELL, max_size=6))
def test_maxwell_by_event(tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]) -> None:
    assert both("maxwell-json", events, {}, tmp_path_factory) == [row for e in events for row in expected(e)]


@given(st.lists(OGG, max_size=6))
def test_ogg_by_event(tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]) -> None:
    def row(event: dict[str, Any], side: str, kind: int) -> tuple[Any, ...]:
        return (*(event[side].get(n) for n in "abc"), kind)

    rows = []
    for event in events:
        kinds = {"I": [("after", 0)], "U": [("before", 1), ("after", 2)], "D": [("before", 3)]}[event["op_type"]]
        rows += [row(event, side, kind) for side, kind in kinds]
    assert both("ogg-json", events, {}, tmp_path_factory) == rows


def both(
    fmt: str, events: list[dict[str, Any]], options: dict[str, str], folders: pytest.TempPathFactory
) -> list[tuple[Any, ...]]:
    """The changes of some events, after both readers gave the same."""
    path = folders.getbasetemp() / f"{fmt}.json"
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    out = []
    for fast in (True, False):
        decoder: Any = make_decoder(table(fmt) | options, fields(COLUMNS), range(3))
        if not fast:
            decoder.lines.fits = lambda piece: False
        out.append([row for df in decoder.read(str(path)) for row in df.rows()])
    assert out[0] == out[1]
    return out[0]


EVENTS = {
    "canal-json": '{"data":[{"a":1,"b":"x"}],"old":[{"b":"w"}],"type":"UPDATE","@at":5}',
    "maxwell-json": '{"data":{"a":1,"b":"x"},"old":{"b":"w"},"type":"update","@at":5}',
    "ogg-json": '{"before":{"a":1,"b":"w"},"after":{"a":1,"b":"x"},"op_type":"U","@at":5}',
}


@pytest.mark.parametrize("fmt", sorted(EVENTS))
def test_replayed(fmt: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(EVENTS[fmt] + "\n" + EVENTS[fmt].replace(":5}", ":3}") + "\n")
    options = {"connector": "replay", "path": str(path), "format": fmt}
    replay = replay_table(options, fields("a INT, b STRING"), [1, 0])
    assert replay.instants() == [3, 5]
    assert replay.read_at(5).rows() == [("w", 1, 1), ("x", 1, 2)]


@pytest.mark.parametrize(
    ("fmt", "line", "reason"),
    [
        ("canal-json", '{"data":[{"a":1}],"type":"QUERY"}', 'unknown "type" value "QUERY"'),
        ("canal-json", '{"data":[{"a":1}]}', 'there is no "type"'),
        ("canal-json", '{"data":null,"type":"INSERT"}', 'the "data" field of the INSERT event is null'),
        ("canal-json", '{"data":[{"a":1}],"type":"UPDATE"}', 'the "old" field of the UPDATE event is null'),
        ("canal-json", '{"data":[{"a":1},{}],"old":[{}],"type":"UPDATE"}', "a row of the UPDATE event is missing"),
        ("maxwell-json", '{"data":{"a":1},"type":"bootstrap-insert"}', 'unknown "type" value "bootstrap-insert"'),
        ("maxwell-json", '{"data":{"a":1},"type":"update"}', 'the "old" field of the update event is null'),
        ("ogg-json", '{"after":{"a":1},"op_type":"U"}', 'the "before" field of the UPDATE event is null'),
        ("ogg-json", '{"before":null,"op_type":"T"}', 'unknown "op_type" value "T"'),
        ("ogg-json", '{"after":{"a":1}}', 'there is no "op_type"'),
    ],
)
def test_events_that_are_none(fmt: str, line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(line + "\n")
    with pytest.raises(DataError) as error:
        read_all(table(fmt), fields("a INT"), path)
    assert error.value.code == "DATA114"
    assert error.value.message == f"not a change event: {reason}"
    assert f"{fmt}.ignore-parse-errors" in (error.value.hint or "")


def test_events_with_their_schema_name_the_option_that_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"schema":{},"payload":{"before":null,"after":{"a":1},"op":"c"}}\n')
    with pytest.raises(DataError, match='there is no "op"') as error:
        read_all(table("debezium-json"), fields("a INT"), path)
    assert "'debezium-json.schema-include' = 'true'" in str(error.value)
    read = table("debezium-json") | {"debezium-json.schema-include": "true"}
    assert len(read_all(read, fields("a INT"), path)) == 1


def test_a_missing_database_is_an_error_when_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"data":[{"a":1}],"type":"INSERT"}\n')
    with pytest.raises(DataError, match='there is no "database"'):
        read_all(table("canal-json") | {"canal-json.database.include": "d"}, fields("a INT"), path)


def test_metadata_of_events_in_a_query(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"data":[{"a":1}],"type":"INSERT","database":"d","ts":1000,"es":null}\n')
    env = TableEnvironment.create()
    env.execute_sql(
        "CREATE TABLE t (a INT, db STRING METADATA FROM 'value.database' VIRTUAL, "
        "file STRING METADATA FROM 'file.name' VIRTUAL, "
        "came TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'canal-json')"
    )
    env.execute_sql("CREATE TABLE s (a INT, db STRING, file STRING, came STRING) WITH ('connector' = 'print')")
    plan = env.compile_plan_sql("INSERT INTO s SELECT a, db, file, CAST(came AS STRING) FROM t")
    graph = translate(PlanDocument.parse(plan.as_json_string()).graph, {}, key_groups=1)
    rows = list(graph.sources[0].reader.read(FileSplit(str(path))))
    frame = graph.sources[0].pipeline.transforms[0](rows[0], 0)
    assert frame.rows() == [(1, "d", "t.json", "1970-01-01 00:00:01.000", 0)]


def test_metadata_of_debezium_as_flink_reads_it() -> None:
    fmt = DebeziumJson()
    keys = [key for key, _ in fmt.metadata]
    for case in cases("debezium_metadata.jsonl"):
        options = {"debezium-json.schema-include": str(case["schema-include"]).lower()}
        for wanted in [keys, *([key] for key in keys), ["source.table", "source.timestamp"], keys[::-1]]:
            frame, _ = fmt.message_decoder(options, fields("a INT"), [0], wanted).messages([case["event"].encode()])
            found = [[RowKind(row[-1]).short, row[0], *map(_plain, row[1:-1])] for row in frame.rows()]
            places = [2 + keys.index(key) for key in wanted]
            assert found == [[*row[:2], *(row[place] for place in places)] for row in case["rows"]], wanted


def _plain(value: Any) -> Any:
    """A value of metadata as the cases have it: a map as an object, a time as milliseconds since 1970."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return {entry["key"]: entry["value"] for entry in value} if isinstance(value, list) else value


def test_single_fields_of_the_source_are_read_by_the_fast_reader() -> None:
    event = {"before": None, "after": {"a": 1}, "op": "c", "source": {"db": "d", "ts_ms": 7, "x": {"y": 1}}}
    decoder: Any = DebeziumJson().message_decoder(
        {}, fields("a INT"), [0], ["source.database", "source.timestamp", "ingestion-timestamp"]
    )
    decoder.lines.slow.rows = None
    frame, _ = decoder.messages([json.dumps(event).encode()] * 2)
    assert [row[1] for row in frame.rows()] == ["d", "d"]
    assert frame["c3"].null_count() == 2


def test_a_source_that_is_no_object_is_an_error() -> None:
    decoder = DebeziumJson().message_decoder({}, fields("a INT"), [0], ["source.properties"])
    with pytest.raises(DataError, match=r"DATA112.*'source\.properties'"):
        decoder.messages([b'{"before":null,"after":{"a":1},"op":"c","source":7}'])
