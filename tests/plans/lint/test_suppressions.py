"""Suppressions are written into plans and taken out again without touching another byte."""

from __future__ import annotations

import json

import pytest

from stateplan.common.errors import PlanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import operators, suppress, unsuppress
from stateplan.plans.lint.subject import accepted
from tests.plans.conftest import DATA

TEXT = (DATA / "join" / "plan.json").read_text()


def styles() -> list[str]:
    data = json.loads(TEXT)
    return [
        TEXT,
        TEXT.replace("\n", "\r\n"),
        json.dumps(data),
        json.dumps(data, separators=(",", ":")),
        json.dumps(data, indent=4),
    ]


@pytest.mark.parametrize("text", styles(), ids=["Flink", "CRLF", "one line", "compact", "wide"])
@pytest.mark.parametrize("node_id", [1, 5, 7])
def test_there_and_back(text: str, node_id: int) -> None:
    document = PlanDocument.parse("\ufeff" + text)
    once = suppress(document, node_id, "TTL001", "först")
    twice = suppress(once, node_id, "TTL002", "then")
    again = suppress(twice, node_id, "TTL001", "changed")
    assert accepted(again.graph.node(node_id)) == {"TTL001": "changed", "TTL002": "then"}
    assert again.written_by == "Flink"
    assert again.data.startswith(b"\xef\xbb\xbf")
    assert (again.text.count("\r") > 0) == ("\r" in text)
    assert unsuppress(suppress(again, node_id, "TTL001", "först"), node_id, "TTL002").text == once.text
    assert unsuppress(unsuppress(twice, node_id, "TTL001"), node_id, "TTL002").text == text
    assert unsuppress(once, node_id, "TTL001").data == document.data
    assert document.text == text


@pytest.mark.parametrize("extra", [{}, {"suppress": {}}, {"uid": "x"}, {"uid": "x", "suppress": {}}])
def test_into_what_is_there(extra: dict[str, object]) -> None:
    data = json.loads(TEXT)
    data["nodes"][4]["stateplan"] = extra
    document = suppress(PlanDocument.parse(json.dumps(data, indent=2)), 5, "TTL001", "why")
    data["nodes"][4]["stateplan"] = {**extra, "suppress": {"TTL001": "why"}}
    assert document.text == json.dumps(data, indent=2)


def test_what_is_no_object_is_left_alone() -> None:
    data = json.loads(TEXT)
    data["nodes"][4]["stateplan"] = None
    document = PlanDocument.parse(json.dumps(data))
    with pytest.raises(PlanError) as caught:
        suppress(document, 5, "TTL001", "why")
    assert caught.value.code == "PLAN132"
    assert caught.value.place and caught.value.place.pointer == "/nodes/4/stateplan"


def test_suppressions_of_a_wrong_type_are_refused() -> None:
    data = json.loads(TEXT)
    data["nodes"][4]["stateplan"] = {"suppress": ["TTL001"]}
    with pytest.raises(PlanError) as caught:
        PlanDocument.parse(json.dumps(data))
    assert caught.value.code == "PLAN081"
    assert caught.value.place and caught.value.place.pointer == "/nodes/4/stateplan/suppress"


def test_what_is_not_there() -> None:
    document = PlanDocument.parse(TEXT)
    for work, code in (
        (lambda: suppress(document, 99, "TTL001", "why"), "PLAN070"),
        (lambda: unsuppress(document, 5, "TTL001"), "PLAN133"),
        (lambda: operators(document, "scan"), "PLAN101"),
    ):
        with pytest.raises(PlanError) as caught:
            work()
        assert caught.value.code == code


def test_operators_by_id_uid_and_name() -> None:
    document = PlanDocument.parse(TEXT)
    for word in ("5", "join", "join[5]", "leftState", document.uids[5]):
        assert [n.id for n in operators(document, word)] == [5]
