"""Variations of a test leave the same tables, unless the query depends on what is varied."""

from __future__ import annotations

import re

import pytest

from stateplan.common.errors import StateplanError
from stateplan.testing.properties import Properties, check_properties, properties_json, properties_text
from tests.testing.stories import COUNT, JOIN, cases

FIRST = """CREATE TABLE t (k INT, v INT, pt AS PROCTIME());
SELECT k, SUM(v) AS v FROM (
  SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS n FROM t) WHERE n = 1
) GROUP BY k;
-- test: t
-- given t
--   | k | v |
--   | 1 | 5 |
--   | 1 | 7 |
"""


def properties(text: str) -> Properties:
    (case,) = cases(text)
    return check_properties(case, {})


def test_a_join_does_not_depend_on_order_and_micro_batches() -> None:
    result = properties(f"""{JOIN}-- test: t
-- given orders
--   | id | num |
--   | 1  | 20  |
--   | 2  | 21  |
-- given logistics
--   | id | target |
--   | 1  | a      |
--   | 1  | b      |
-- advance 12 h
-- given orders
--   | id | num |
--   | 1  | 22  |
""")
    assert (result.variations, result.deviations) == (8, [])


def test_the_first_row_by_arrival_depends_on_order_and_its_operator_is_named() -> None:
    result = properties(FIRST)
    assert {d.variation for d in result.deviations} >= {"rows in reverse order"}
    reverse = next(d for d in result.deviations if d.variation == "rows in reverse order")
    assert reverse.operator is not None and reverse.operator.startswith("deduplicate[")
    assert (reverse.missing_rows, reverse.extra) == ((("1", "5"),), (("1", "7"),))
    assert "the first operator with other rows is deduplicate[" in properties_text([result])


@pytest.mark.parametrize("name", ["deduplicate", "deduplicate[4]"])
def test_an_accepted_dependence_on_order_is_no_deviation(name: str) -> None:
    result = properties(f"-- accept order dependence in {name}\n{FIRST}")
    assert result.deviations == [] and "rows in reverse order" in {d.variation for d in result.accepted}
    (line,) = properties_text([result]).splitlines()[1:]
    assert re.fullmatch(r" +in \d other orders?, deduplicate\[4\] has other rows, as the test says", line)
    assert properties_json(result)["deviations"] == [] and properties_json(result)["accepted"]


def test_a_dependence_of_another_operator_is_a_deviation() -> None:
    result = properties(f"{FIRST}-- accept order dependence in table-source-scan, group-aggregate\n")
    assert result.deviations and not result.accepted


def test_only_operators_of_the_plan_can_depend_on_order() -> None:
    with pytest.raises(StateplanError) as caught:
        properties(f"{FIRST}-- accept order dependence in dedupicate\n")
    error = caught.value
    assert (error.code, error.hint) == ("TEST003", "did you mean 'deduplicate[4]'?")
    assert error.message == "the query does not have an operator 'dedupicate'"
    assert error.place is not None and error.place.line == FIRST.count("\n") + 1


def test_changes_keep_their_order() -> None:
    story = COUNT.replace("num INT);\nCREATE", "num INT) WITH ('changelog-mode' = 'retract');\nCREATE", 1)
    rows = (
        "--      | product | num |\n--   +I | tea     | 2   |\n--   -D | tea     | 2   |\n--   +I | tea     | 3   |\n"
    )
    assert properties(f"{story}-- test: t\n-- given sales\n{rows}").deviations == []


def test_what_goes_beyond_the_watermark_is_not_compared() -> None:
    result = properties("""CREATE TABLE s (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts);
SELECT window_start, SUM(v) AS v
FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end;
-- test: t
-- given s
--   | v | ts                  |
--   | 1 | 2024-01-01 00:02:00 |
--   | 2 | 2024-01-01 00:00:00 |
-- end
""")
    assert result.beyond > 0 and result.deviations == []


def test_a_test_that_fails_or_expects_an_error_is_not_varied() -> None:
    assert properties("-- test: t\nSELECT a;\n-- expect error SQL100\n").skip_reason == "it expects an error"
    assert (properties("-- test: t\nSELECT a;\n").skip_reason or "").startswith("it fails: ")
