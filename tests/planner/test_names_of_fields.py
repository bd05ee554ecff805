"""Names of fields that the SQL does not give them, in Flink's plans: where a projection that only renames is gone, or a
rule of the optimizer names what it computes."""

from __future__ import annotations

import pytest

from stateplan.session.environment import TableEnvironment

TABLES = (
    "CREATE TABLE a (k INT, v BIGINT, s STRING, et TIMESTAMP(3), WATERMARK FOR et AS et) "
    "WITH ('connector' = 'datagen')",
    "CREATE TABLE e (id INT, k INT, ut TIMESTAMP(3), WATERMARK FOR ut AS ut, PRIMARY KEY (id) NOT ENFORCED) "
    "WITH ('connector' = 'datagen')",
)
TEMPORAL = "SELECT a.*, e.id, e.k AS x, e.ut FROM a LEFT JOIN e FOR SYSTEM_TIME AS OF a.et ON a.k = e.id"
TOP = "SELECT v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, s) AS n FROM a) WHERE n <= 3"


@pytest.mark.parametrize(
    ("query", "line"),
    [
        (  # the casts of the right side's times are below already, and the projection is gone
            f"SELECT k, v, s, et, id, x, CAST(ut AS TIMESTAMP(3)) AS t FROM ({TEMPORAL})",
            "Calc(select=[k, v, s, et, id, k0, CAST(ut AS TIMESTAMP(3)) AS ut])",
        ),
        (
            f"SELECT k, id, x, CAST(ut AS TIMESTAMP(3)) AS t FROM ({TEMPORAL})",
            "Calc(select=[k, id, k0 AS x, CAST(ut AS TIMESTAMP(3)) AS t])",
        ),
        (  # the values of windows, and of expressions below them, have the names of their positions
            "SELECT s, et, MAX(k) OVER (ORDER BY et) AS x, UPPER(s) AS y FROM a",
            "Calc(select=[s, et, w0$o0 AS $2, $3])",
        ),
        (
            "SELECT s, et, UPPER(s) AS y, MAX(k) OVER (ORDER BY et) AS x FROM a",
            "Calc(select=[s, et, $3 AS $2, w0$o0 AS $3])",
        ),
        (  # an Expand is named after what is below it when the grouping sets are taken apart
            f"SELECT v, n, COUNT(*) AS c FROM ({TOP}) GROUP BY ROLLUP (v, n)",
            "Calc(select=[v, w0$o0, c])",
        ),
        (  # a call without a name has that of its position, also when calls before it are gone
            "SELECT k FROM (SELECT k, s, MAX(v) AS x FROM a GROUP BY k, s HAVING COUNT(*) > 1)",
            "Calc(select=[k], where=[($f2 > 1)])",
        ),
    ],
)
def test_names_are_flinks(query: str, line: str) -> None:
    environment = TableEnvironment.create()
    for table in TABLES:
        environment.execute_sql(table)
    assert line in environment.explain_sql(query)
