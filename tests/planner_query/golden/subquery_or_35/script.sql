CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 STRING, c1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT y, COUNT(*) FROM t GROUP BY y HAVING COUNT(*) > 1 OR y IN (SELECT y FROM u);
