"""The table of nodes: what it refuses, and what it says about types it does not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stateplan.common.errors import PlanError
from stateplan.execnodes import registry
from stateplan.execnodes.flink import FLINK_NODES
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.nodes.sink import Sink, SinkV1
from stateplan.execnodes.registry import exec_node, lookup, node_class, node_classes, node_from_json, split_type
from tests.execnodes.node_plans import join_plan


def test_the_nodes_in_scope_are_registered() -> None:
    assert {f"{n.removeprefix('stream-exec-')}_{v}" for n, v in node_classes()} >= {
        "table-source-scan_1", "table-source-scan_2", "calc_1", "exchange_1", "deduplicate_1", "group-aggregate_1",
        "join_1", "union_1", "sink_1", "sink_2", "rank_1", "limit_1", "sort-limit_1",
    }  # fmt: skip


def test_registered_nodes_agree_with_flink() -> None:
    """What else Flink says of them is in ``tests/execnodes/test_flink_plans.py``."""
    for (name, version), cls in node_classes().items():
        row = FLINK_NODES.get(name)
        assert row is None or (version in row.versions and row.inputs == cls.INPUTS), name


def test_versions_of_a_node_are_found() -> None:
    assert lookup("stream-exec-sink", 2) is Sink
    assert lookup("stream-exec-sink", 1) is SinkV1
    assert node_class("stream-exec-calc_1") is Calc
    assert lookup("stream-exec-delta-join", 1) is None
    assert node_class("stream-exec-delta-join_1") is OpaqueNode


@pytest.mark.parametrize(
    ("text", "code", "expected", "hint"),
    [
        ("stream-exec-calc", "PLAN032", "NAME_VERSION", "write 'stream-exec-calc_1'"),
        (
            "stream-exec-sink_two",
            "PLAN032",
            "NAME_VERSION",
            "write 'stream-exec-sink_1' or 'stream-exec-sink_2'",
        ),
        ("stream-exec-calc_", "PLAN032", "NAME_VERSION", "write 'stream-exec-calc_1'"),
        ("stream-exec-calc_-1", "PLAN032", "NAME_VERSION", "write 'stream-exec-calc_1'"),
        ("stream-exec-calc_²", "PLAN032", "NAME_VERSION", "write 'stream-exec-calc_1'"),
        ("stream-exec-calk", "PLAN032", "NAME_VERSION", "did you mean 'stream-exec-calc_1'"),
        ("", "PLAN032", "NAME_VERSION", None),
        ("stream-exec-calc_2", "PLAN033", "version 1", None),
        ("stream-exec-sink_3", "PLAN033", "version 1 or 2", None),
        ("stream-exec-window-rank_9", "PLAN033", "version 1", None),
        ("stream-exec-clac_1", "PLAN034", "a node type", "did you mean 'stream-exec-calc_1'"),
        ("stream-exec-windowrank_1", "PLAN034", "a node type", "did you mean 'stream-exec-window-rank_1'"),
        ("zzz_1", "PLAN034", "a node type", None),
        ("batch-exec-hash-join_1", "PLAN034", "a node type", "this is a plan of Flink's batch mode"),
    ],
)
def test_unknown_types(text: str, code: str, expected: str, hint: str | None) -> None:
    with pytest.raises(PlanError) as caught:
        node_class(text)
    assert caught.value.code == code
    assert caught.value.expected is not None
    assert caught.value.expected.startswith(expected)
    assert (caught.value.hint or "").startswith(hint or "")
    assert (caught.value.hint is None) == (hint is None)


def test_split_type() -> None:
    assert split_type("stream-exec-group-aggregate_12") == ("stream-exec-group-aggregate", 12)


EXAMPLE = "x\n\n.. code-block:: sql\n\n    SELECT 1\n"


def made_up(doc: str | None = EXAMPLE) -> type[ExecNode]:
    class MadeUp(ExecNode):
        pass

    MadeUp.__doc__ = doc
    return MadeUp


@pytest.mark.parametrize(
    ("title", "version", "doc", "message"),
    [
        ("", 1, EXAMPLE, "title"),
        ("Calc", 1, EXAMPLE, "title"),
        ("made-up", 0, EXAMPLE, "version"),
        ("made-up", 1, None, "docstring"),
        ("made-up", 1, "Without an example.", "docstring"),
        ("calc", 1, EXAMPLE, "already Calc"),
    ],
)
def test_a_node_without_its_facts_is_refused(title: str, version: int, doc: str | None, message: str) -> None:
    before = dict(registry._TABLE)
    with pytest.raises(TypeError, match=message):
        exec_node(title, version)(made_up(doc))
    assert before == registry._TABLE


def test_a_docstring_is_not_inherited() -> None:
    class Undocumented(Calc):
        pass

    with pytest.raises(TypeError, match="docstring"):
        exec_node("calc", 99)(Undocumented)


def test_a_node_file_registers_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TABLE", dict(registry._TABLE))
    cls = exec_node("made-up")(made_up())
    assert registry._TABLE["stream-exec-made-up", 1] is cls


def test_nodes_do_not_accept_another_type() -> None:
    data = join_plan()["nodes"][5]
    with pytest.raises(ValueError, match="the type of the node is 'stream-exec-join_1'"):
        Calc.model_validate({**data, "type": "stream-exec-join_1"})


def test_nodes_describe_their_json() -> None:
    """A JSON Schema can be made of every node: its keys are those that are written."""
    for cls in node_classes().values():
        schema = cls.model_json_schema(by_alias=True)
        assert list(schema["properties"]) and set(schema["properties"]) == {key for _, key, _, _ in cls.layout()}
        assert schema["additionalProperties"] is False


def test_errors_start_at_the_given_pointer() -> None:
    with pytest.raises(PlanError) as caught:
        node_from_json({"id": 1, "type": "stream-exec-nothing_1"}, "/nodes/7")
    assert caught.value.place is not None
    assert caught.value.place.pointer == "/nodes/7/type"


def test_importing_the_nodes_is_light() -> None:
    """Nothing heavy is loaded, and the processor time of it all stays small."""
    code = (
        "import sys, stateplan.execnodes.graph, stateplan.execnodes.fingerprint;"
        "import stateplan.execnodes.registry as r; r.node_classes();"
        "print([m for m in ('polars', 'pyspark', 'sqlglot', 'pandas', 'numpy', 'pyarrow') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
