"""What joins on time refuse, where Flink does."""

from __future__ import annotations

import pytest

from stateplan.common.errors import SqlError
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script

WITH = "WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'json')"
TABLES = f"""
CREATE TABLE o (oid INT, cur STRING, ot TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ot AS ot) {WITH};
CREATE TABLE plain (oid INT, cur STRING, ot TIMESTAMP(3)) {WITH};
CREATE TABLE r (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt, PRIMARY KEY (cur) NOT ENFORCED) {WITH};
CREATE TABLE keyless (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) {WITH};
CREATE TABLE timeless (cur STRING, rate INT, PRIMARY KEY (cur) NOT ENFORCED) {WITH};
CREATE TABLE ltz (cur STRING, rate INT, rt TIMESTAMP_LTZ(3), WATERMARK FOR rt AS rt,
  PRIMARY KEY (cur) NOT ENFORCED) {WITH};
CREATE TABLE made (cur STRING, rate INT) WITH ('connector' = 'datagen');
CREATE VIEW v AS SELECT cur, rate FROM r;
CREATE TABLE s (oid INT, rate INT) WITH ('connector' = 'print');
"""


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("plain AS o JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur = r.cur", "SQL146"),
        ("o JOIN r FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01 00:00:00' ON o.cur = r.cur", "SQL146"),
        ("o JOIN r FOR SYSTEM_TIME AS OF o.ot ON TRUE", "SQL147"),
        ("o JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur < r.cur", "SQL147"),
        ("o, r FOR SYSTEM_TIME AS OF o.ot WHERE o.cur = r.cur", "SQL147"),
        ("o JOIN r FOR SYSTEM_TIME AS OF o.pt ON o.cur < r.cur", "SQL147"),
        ("o JOIN keyless FOR SYSTEM_TIME AS OF o.ot AS r ON o.cur = r.cur", "SQL148"),
        ("o JOIN timeless FOR SYSTEM_TIME AS OF o.ot AS r ON o.cur = r.cur", "SQL148"),
        ("o JOIN ltz FOR SYSTEM_TIME AS OF o.ot AS r ON o.cur = r.cur", "SQL148"),
        ("o JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.oid = r.rate", "SQL148"),
        ("o RIGHT JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur = r.cur", "SQL149"),
        ("o FULL JOIN r FOR SYSTEM_TIME AS OF o.pt ON o.cur = r.cur", "SQL149"),
        ("o JOIN r FOR SYSTEM_TIME AS OF o.pt ON o.cur IS NOT DISTINCT FROM r.cur", "SQL149"),
        ("o JOIN r FOR SYSTEM_TIME AS OF o.pt ON o.cur = r.cur OR (o.cur IS NULL AND r.cur IS NULL)", "SQL149"),
        ("o JOIN v FOR SYSTEM_TIME AS OF o.pt AS r ON o.cur = r.cur", "SQL149"),
        ("o JOIN made FOR SYSTEM_TIME AS OF o.pt AS r ON o.cur = r.cur", "SQL149"),
    ],
)
def test_refused(query: str, code: str) -> None:
    session = TableEnvironment.create()
    for statement in read_script(TABLES):
        session.execute_statement(statement)
    with pytest.raises(SqlError) as caught:
        session.compile_plan_sql(f"INSERT INTO s SELECT o.oid, r.rate FROM {query}")
    assert caught.value.code == code
    assert caught.value.place is not None and caught.value.expected


def test_nothing_to_the_left() -> None:
    session = TableEnvironment.create()
    for statement in read_script(TABLES):
        session.execute_statement(statement)
    with pytest.raises(SqlError, match="SQL146"):
        session.compile_plan_sql("INSERT INTO s SELECT 1, rate FROM r FOR SYSTEM_TIME AS OF PROCTIME()")


def test_lifetimes_of_a_temporal_join_from_a_hint() -> None:
    session = TableEnvironment.create({"table.exec.state.ttl": "1 h"})
    for statement in read_script(TABLES):
        session.execute_statement(statement)
    plan = session.compile_plan_sql(
        "INSERT INTO s SELECT /*+ STATE_TTL('o' = '1 d') */ o.oid, r.rate "
        "FROM o JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur = r.cur"
    ).as_json_string()
    state = plan[plan.index('"leftState"') - 80 : plan.index('"rightState"')]
    assert '"ttl" : "1 d"' in state and '"ttl" : "1 h"' in state


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("o JOIN ltz AS r ON o.cur = r.cur AND o.ot BETWEEN r.rt AND r.rt + INTERVAL '1' HOUR", "SQL151", "one type"),
        (
            "o JOIN (SELECT *, PROCTIME() AS now FROM r) AS r ON o.cur = r.cur AND o.pt BETWEEN r.now AND r.now "
            "WHERE MOD(r.rate + EXTRACT(SECOND FROM o.ot), r.rate + EXTRACT(SECOND FROM r.rt)) = 0",
            "SQL151",
            "processing-time interval join",
        ),
        (
            "o JOIN (SELECT cur, rate, rt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cur ORDER BY rt DESC) AS n "
            "FROM r) WHERE n = 1) AS r ON o.cur = r.cur AND o.ot BETWEEN r.rt AND r.rt + INTERVAL '1' HOUR",
            "SQL140",
            "an interval join",
        ),
    ],
)
def test_interval_joins_that_are_refused(query: str, code: str, words: str) -> None:
    session = TableEnvironment.create()
    for statement in read_script(TABLES):
        session.execute_statement(statement)
    with pytest.raises(SqlError, match=words) as caught:
        session.compile_plan_sql(f"INSERT INTO s SELECT o.oid, r.rate FROM {query}")
    assert caught.value.code == code
    assert caught.value.place is not None and caught.value.expected
