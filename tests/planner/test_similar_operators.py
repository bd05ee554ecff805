"""Operators that a changed query has in another form are found again; others are not taken for them."""

from __future__ import annotations

import pytest

from stateplan.plans.diff import OperatorDiff, compare
from stateplan.plans.document import PlanDocument
from stateplan.plans.similarity import LEAST, similarity
from tests.support.changes import document


def pairs(before: str, after: str, kind: str) -> dict[str, str]:
    """What each operator of a kind does in the new plan, to what its partner did in the old one; '' for none."""
    old, new = document(before), document(after)

    def words(plan: PlanDocument, side: object) -> str:
        if side is None:
            return ""
        node = plan.graph.node(side.id)  # type: ignore[attr-defined]
        return node.describe(plan.graph.input_types(node))

    found: list[OperatorDiff] = [o for o in compare(old, new).operators if (o.new or o.old).name == kind]  # type: ignore[union-attr]
    return {words(new, o.new) or f"gone: {words(old, o.old)}": words(old, o.old) for o in found if o.new or o.old}


def test_an_aggregate_with_another_call_is_still_the_same_operator() -> None:
    one, two = "SELECT product, COUNT(*) FROM orders GROUP BY product", "SELECT id, SUM(amount) FROM orders GROUP BY id"
    changed = "SELECT id, SUM(amount), MAX(price) FROM orders GROUP BY id"
    assert pairs(f"{one}; {two}", f"{changed}; {one}", "group-aggregate") == {
        "keeps SUM(amount), MAX(price) of each id": "keeps SUM(amount) of each id",
        "keeps COUNT(*) of each product": "keeps COUNT(*) of each product",
    }


def test_a_source_is_known_by_its_table_and_not_by_its_place() -> None:
    before = "SELECT o.id, target FROM orders AS o JOIN shipped AS s ON o.id = s.id"
    after = "SELECT target, days, amount FROM shipped AS s LEFT JOIN orders AS o ON o.id = s.id"
    found = pairs(before, after, "table-source-scan")
    assert [(new.rpartition(".")[2].split()[0], old.rpartition(".")[2].split()[0]) for new, old in found.items()] == [
        ("shipped", "shipped"),
        ("orders", "orders"),
    ]


def test_operators_that_share_nothing_are_not_paired() -> None:
    found = compare(document("SELECT id FROM orders"), document("SELECT target FROM shipped"))
    sources = [o for o in found.operators if (o.new or o.old).name == "table-source-scan"]  # type: ignore[union-attr]
    assert [(o.old is None, o.new is None) for o in sources] == [(True, False), (False, True)]


COUNT = "SELECT product, COUNT(*) FROM orders GROUP BY product"
NESTED = "SELECT n, COUNT(*) FROM (SELECT product, COUNT(*) AS n FROM orders GROUP BY product) GROUP BY n"


@pytest.mark.parametrize("kept", [0, 1])
def test_of_twins_the_one_that_is_read_alike_is_the_partner(kept: int) -> None:
    """Both queries count the same; each has a state of its own, and nothing says that they hold the same rows."""
    both, queries = document(f"{COUNT}; {NESTED}"), (COUNT, NESTED)
    found = compare(both, document(queries[kept]))
    [inner] = [o for o in found.operators if o.new and o.new.name == "group-aggregate" and o.verdict != "reset"][:1]
    assert inner.old is not None
    readers = [n.title for n in both.graph.consumers(both.graph.node(inner.old.id))]
    assert readers == (["sink"] if kept == 0 else ["calc"])


def test_similarity_is_a_share() -> None:
    assert similarity({"a": 2.0, "b": 1.0}, {"a": 2.0, "b": 1.0}) == 1
    assert similarity({"a": 2.0}, {"b": 1.0}) == 0
    assert similarity({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 2.0}) == LEAST
