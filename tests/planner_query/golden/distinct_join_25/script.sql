CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT q.a, MIN(u.x) FROM (SELECT a, SUM(b) AS s FROM t GROUP BY a) q JOIN u ON q.a = u.a GROUP BY q.a;
