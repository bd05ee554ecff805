SET '__table.exec.sort.non-temporal.enabled__' = 'true';
CREATE TABLE t (x INT, y STRING, v DOUBLE) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (c0 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT y FROM t ORDER BY x;
