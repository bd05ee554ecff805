CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE) WITH ('connector'='filesystem', 'path'='/tmp/x/t', 'format'='json');
CREATE TABLE cdc (id INT, a INT, b BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/tmp/x/c', 'format'='debezium-json');
CREATE TEMPORARY FUNCTION top AS 'tests.support.plan_functions.top' LANGUAGE PYTHON;
CREATE TEMPORARY SYSTEM FUNCTION top2 AS 'tests.support.plan_functions.top2' LANGUAGE PYTHON;
CREATE TABLE snk (k INT, v BIGINT, r INT) WITH ('connector'='print');
CREATE TABLE pk (k INT, v BIGINT, r INT, PRIMARY KEY (k, r) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO snk SELECT /*+ STATE_TTL('x' = '2 h') */ k, w, r FROM top2(TABLE t PARTITION BY a, DESCRIPTOR(b)) AS x(k, w, r) WHERE k > 1 AND r = 1;
