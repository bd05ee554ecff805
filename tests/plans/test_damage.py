"""Plans damaged at random: each one loads, or is refused with a code and a place; nothing else ever happens."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from execnodes.errors import PlanError, StateplanError
from plans import diff, explain, show
from plans.document import PlanDocument
from plans.jackson import dumps
from plans.jsontext import SourceMap
from plans.schema import schema_errors
from tests.plans.conftest import DATA

NAMES = ("join", "dedup", "group_agg", "limit", "sink_materializer", "two_sinks")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+|true|false|null|[{}\[\]:,]|\s+')

TOKENS = (
    "{", "}", "[", "]", ",", ":", "null", "true", "false", '""', '"x"', '"-1 d"', "0", "-1", "1.5", "1e999", "NaN",
    "99999999999999999999", "9" * 5000, '"\\ud800"', '"\\', "'", "//", "\x00", "\ufeff", "é", "[[[[", "{}", "[]",
    '"type"', '"state"', '"stream-exec-calc_1"', '"stateplan"', '"ROW<`a` INT>"', '"INPUT_REF"', '"CALL"',
)  # fmt: skip

NESTS = (("[", "]"), ('{"a":', "}"), ('{"kind":"CALL","operands":[', '],"type":"INT"}'))

VALUES = st.one_of(
    st.sampled_from(
        [None, True, False, 0, 1, -1, 2, 10**30, 1.5, "", "x", "0", "1 h", "-1 d", "INT", "ROW<", "ROW<`a` INT>", [],
         {}, [None], [[]], [0, 0], {"a": 1}, {"kind": "CALL"}, {"kind": "LITERAL", "type": "INT"}, {"type": "ROW"},
         {"type": "ROW", "fields": []}, {"kind": "INPUT_REF", "inputIndex": 99, "type": "INT"}, "stream-exec-sink_1",
         "stream-exec-join_1", "stream-exec-union_1", "stream-exec-rank_1", "INSERT", "\u2028", "${DIR}", "`a`.`b"]
    ),
    st.integers(-3, 12),
    st.text(max_size=5),
)  # fmt: skip


@cache
def text_of(name: str) -> str:
    return (DATA / name / "plan.json").read_text()


@cache
def original(name: str) -> PlanDocument:
    return PlanDocument.parse(text_of(name))


@cache
def tokens_of(name: str) -> tuple[str, ...]:
    return tuple(TOKEN.findall(text_of(name)))


@cache
def pointers_of(name: str) -> tuple[str, ...]:
    return tuple(p for p in SourceMap(text_of(name)).locations if p)


def check(text: str, name: str) -> None:
    """Loads ``text``; when it is a plan, does with it everything one can do with a plan."""
    try:
        document = PlanDocument.parse(text, "plan.json")
    except PlanError as error:
        assert re.fullmatch("(PLAN|TYPE)[0-9]{3}", error.code), error
        assert error.place is not None
        assert error.place.line is not None or error.code == "PLAN015"
        assert len(str(error)) < 4000
        assert error.message
        return
    assert document.text == text.removeprefix("\ufeff")
    show.to_text(show.show(document))
    json.dumps(show.to_json(show.show(document)))
    explain.to_text(explain.explain(document))
    json.dumps(explain.to_json(explain.explain(document)))
    diff.to_text(diff.compare(original(name), document))
    assert diff.compare(document, document).verdict == "identical"
    schema_errors(json.loads(text.removeprefix("\ufeff")))
    try:
        again = PlanDocument.from_graph(document.graph)
    except PlanError as error:  # unknown keys, which only Flink's plans may have
        assert error.code in ("PLAN045", "PLAN081", "PLAN082")
    else:
        assert diff.compare(document, again).verdict == "identical"
    for node in document.graph.nodes:
        if node.state_names:
            document.set_ttl(node.id, 0, "3 d")
            assert document.graph.node(node.id).ttls()[0] == 3 * 86_400_000


@st.composite
def damaged_text(draw: st.DrawFn) -> tuple[str, str]:
    name = draw(st.sampled_from(NAMES))
    tokens = list(tokens_of(name))
    for _ in range(draw(st.integers(1, 3))):
        if not tokens:
            break
        at = draw(st.integers(0, len(tokens) - 1))
        what = draw(st.sampled_from(("delete", "replace", "insert", "duplicate", "swap", "truncate", "number", "nest")))
        if what == "delete":
            del tokens[at]
        elif what == "replace":
            tokens[at] = draw(st.sampled_from(TOKENS))
        elif what == "insert":
            tokens.insert(at, draw(st.sampled_from(TOKENS)))
        elif what == "duplicate":
            end = at + draw(st.integers(1, 12))
            tokens[at:at] = tokens[at:end]
        elif what == "swap":
            other = draw(st.integers(0, len(tokens) - 1))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif what == "truncate":
            tokens = tokens[: max(1, at)]
        elif what == "number":
            places = [i for i, t in enumerate(tokens) if t.isdigit()]
            if places:
                tokens[draw(st.sampled_from(places))] = str(draw(st.integers(-2, 20)))
        else:
            depth = draw(st.sampled_from((5, 200, 499, 501, 5000)))
            opening, closing = draw(st.sampled_from(NESTS))
            tokens[at] = opening * depth + tokens[at] + closing * depth
    return name, "".join(tokens)


@given(damaged_text())
@settings(max_examples=300, deadline=2000)
def test_damaged_text(damaged: tuple[str, str]) -> None:
    check(damaged[1], damaged[0])


@st.composite
def damaged_values(draw: st.DrawFn) -> tuple[str, str]:
    name = draw(st.sampled_from(NAMES))
    plan = json.loads(text_of(name))
    for _ in range(draw(st.integers(1, 3))):
        pointer = draw(st.sampled_from(pointers_of(name))).split("/")[1:]
        target: Any = plan
        try:
            for step in pointer[:-1]:
                target = target[int(step)] if isinstance(target, list) else target[step.replace("~1", "/")]
            key: Any = int(pointer[-1]) if isinstance(target, list) else pointer[-1].replace("~1", "/")
            value = target[key]
        except (KeyError, IndexError, TypeError, ValueError):
            continue
        what = draw(st.sampled_from(("value", "delete", "rename", "copy", "wrap")))
        if what == "value":
            target[key] = draw(VALUES)
        elif what == "delete":
            del target[key]
        elif what == "rename" and isinstance(target, dict):
            target[draw(st.sampled_from((f"{key}s", "state", "type", "", "stateplan", "configuration")))] = target.pop(
                key
            )
        elif what == "copy" and isinstance(target, list):
            target.append(copy.deepcopy(value))
        elif what == "wrap":
            target[key] = draw(st.sampled_from(([value], {"x": value}, [value, value])))
    return name, dumps(plan)


@given(damaged_values())
@settings(max_examples=400, deadline=2000)
def test_damaged_values(damaged: tuple[str, str]) -> None:
    check(damaged[1], damaged[0])


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda t: t.encode("utf-16")))
@settings(max_examples=100, deadline=2000)
def test_any_bytes(data: bytes) -> None:
    from plans.jsontext import decode

    try:
        PlanDocument.parse(decode(data)[0])
    except StateplanError as error:
        assert error.code.startswith("PLAN")
    else:
        raise AssertionError("40 bytes are no plan")
