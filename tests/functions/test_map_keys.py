"""A map that was made with a key twice has both entries; what reads it as a map of Java takes the later one."""

from __future__ import annotations

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs


def test_a_key_given_twice(capfd: pytest.CaptureFixture[str]) -> None:
    env = TableEnvironment.create({"table.local-time-zone": "UTC"}, jobs=Jobs())
    env.execute_sql("CREATE TABLE sink (n INT, v STRING, m MAP<STRING, STRING>) WITH ('connector' = 'print')")
    env.execute_sql(
        "INSERT INTO sink SELECT CARDINALITY(m), m[k], m FROM (SELECT k, MAP['a', 'first', k, 'second'] AS m"
        " FROM (VALUES ('a'), ('b')) AS t(k))"
    ).wait()
    assert sorted(capfd.readouterr().out.split("\n")[:-1]) == [
        "+I[2, first, {a=second}]",
        "+I[2, second, {a=first, b=second}]",
    ]
