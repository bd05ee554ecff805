"""Test files run on Spark: each step is a job that continues from the checkpoint of the one before."""

from __future__ import annotations

import pytest

from stateplan.testing.on_spark import run_on_spark
from tests.testing.stories import COUNT, JOIN, cases

STORY = f"""{JOIN}
-- test: t
-- given orders
--   | id | num |
--   | 1  | 20  |
--   | 2  | 30  |
-- expect rows
-- expect state join.left: 2 rows
-- expect state join.right: 0 rows
-- advance 7 d
-- expect state join.left: 0 rows
-- ttl join.left 8 d
-- expect state join.left: 2 rows
-- given logistics
--   | id | target |
--   | 1  | Berlin |
-- expect changelog
--      | id | num | target |
--   +I | 1  | 20  | Berlin |
-- advance 1 d
-- given logistics
--   | id | target |
--   | 2  | Paris  |
-- expect rows
-- expect state join.left: 0 rows
-- expect state join.right: 1 row
-- expect table
--   | id | num | target |
--   | 1  | 20  | Berlin |
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_steps_times_and_ttls_hold_on_spark() -> None:
    (case,) = cases(STORY)
    result = run_on_spark(case, {})
    assert result.error is None, result.error
    assert result.holds and len(result.verdicts) == 10, result.failures
    (other,) = cases(STORY.replace("ttl join.left 8 d", "ttl join.left 7 d"))
    assert [v.expect.subject for v in run_on_spark(other, {}).failures] == ["state", "changelog", "table"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_windows_close_at_the_end_only() -> None:
    (case,) = cases("""CREATE TABLE s (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts);
SELECT window_start, SUM(v) AS v
FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY window_start, window_end;
-- test: t
-- given s
--   | v | ts                  |
--   | 1 | 2024-01-01 09:00:00 |
-- expect rows
-- end
-- expect rows
--   | window_start        | v |
--   | 2024-01-01 09:00:00 | 1 |
""")
    result = run_on_spark(case, {})
    assert result.error is None and result.holds, (result.error, result.failures)


@pytest.mark.parametrize(
    "steps",
    [
        "CREATE TABLE s (ts TIMESTAMP(3), WATERMARK FOR ts AS ts);\nSELECT * FROM s;\n"
        "-- test: t\n-- watermark s 2024-01-01 09:00:00\n-- expect rows\n",
        "CREATE TABLE s (v INT, pt AS PROCTIME());\nSELECT SUM(v) AS v\n"
        "FROM TUMBLE(TABLE s, DESCRIPTOR(pt), INTERVAL '1' HOUR) GROUP BY window_start, window_end;\n"
        "-- test: t\n-- advance 1 h\n-- expect rows\n",
    ],
    ids=["watermark", "clock"],
)
def test_what_spark_cannot_do_is_skipped_with_a_reason(steps: str) -> None:
    (case,) = cases(steps)
    assert "Spark cannot run this test" in (run_on_spark(case, {}).skip_reason or "")


def test_a_refusal_needs_no_spark() -> None:
    (case,) = cases(f"{COUNT}-- test: t\nSELECT 1;\n-- expect error TEST005\n")
    assert run_on_spark(case, {}).holds
