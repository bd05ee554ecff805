CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE) WITH ('connector'='filesystem', 'path'='/tmp/x/t', 'format'='json');
CREATE TABLE cdc (id INT, a INT, b BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/tmp/x/c', 'format'='debezium-json');
CREATE TEMPORARY FUNCTION top AS 'tests.support.plan_functions.top' LANGUAGE PYTHON;
CREATE TEMPORARY SYSTEM FUNCTION top2 AS 'tests.support.plan_functions.top2' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION pmax AS 'tests.support.plan_functions.pmax' LANGUAGE PYTHON;
CREATE TABLE snk (k INT, v BIGINT, r INT) WITH ('connector'='print');
CREATE TABLE pk (k INT, v BIGINT, r INT, PRIMARY KEY (k, r) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO snk SELECT a, pmax(b), 1 FROM t GROUP BY a;
