SET '__table.exec.sort.non-temporal.enabled__' = 'true';
CREATE TABLE t (x INT, y STRING, v DOUBLE) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING, v DOUBLE) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 INT, c1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT t.x, u.y FROM t LEFT JOIN u ON t.x = u.x ORDER BY u.y;
