"""Coverage says what no test touches."""

from __future__ import annotations

from stateplan.testing.coverage import Coverage, coverage_text
from tests.testing.stories import JOIN, cases


def coverage(text: str) -> Coverage:
    result = Coverage()
    for case in cases(text):
        assert result.add(case, {}).error is None
    return result


def test_a_ttl_is_touched_when_a_row_expires_and_another_is_used() -> None:
    orders = "-- given orders\n--   | id | num |\n--   | 1  | 2   |\n"
    logistics = "-- given logistics\n--   | id | target |\n--   | 1  | a      |\n"
    first = coverage(f"{JOIN}-- test: t\n{orders}-- advance 1 d\n{logistics}")
    assert {use.name: (use.has_expired, use.was_used) for use in first.ttls.values()} == {
        "join.left": (False, True),
        "join.right": (False, False),
    }
    assert not first.is_complete
    assert "no row of join.left expires in any test; its TTL is 7 d" in coverage_text(first)
    assert "no row of join.right is used in a later micro-batch" in coverage_text(first)
    both = f"{JOIN}-- test: t\n{orders}-- advance 1 d\n{logistics}-- advance 1 h\n{orders}-- advance 7 d\n"
    assert coverage(both).is_complete


def test_an_operator_without_rows_is_reported() -> None:
    result = coverage("""CREATE TABLE t (a INT);
CREATE TABLE u (a INT);
SELECT a FROM t UNION ALL SELECT MAX(a) FROM u;
-- test: t
-- given t
--   | a |
--   | 1 |
""")
    silent = {name.partition("[")[0] for (_, name), emits in result.operators.items() if not emits}
    assert "group-aggregate" in silent and "table-source-scan" in silent


def test_branches_of_case_are_reported_also_nested_ones() -> None:
    query = """CREATE TABLE t (a INT);
SELECT CASE WHEN a > 10 THEN 'big' WHEN a > 5 THEN CASE a WHEN 7 THEN 'seven' ELSE 'middle' END ELSE 'small' END AS b
FROM t WHERE a <> 3;
-- test: t
-- given t
--   | a |
--   | {} |
"""
    taken = {text for (_, text), is_taken in coverage(query.format("7 |\n--   | 3")).branches.items() if is_taken}
    assert len(taken) == 2 and any("> 5" in text or ">(a, 5)" in text for text in taken), taken
    rest = coverage_text(coverage(query.format("7")))
    assert rest.count("no row takes ELSE") == 2
    everything = query.format("7 |\n--   | 6 |\n--   | 1 |\n--   | 11")
    assert coverage(everything).is_complete
