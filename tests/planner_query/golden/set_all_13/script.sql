CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/set_t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/set_u.json', 'format'='json');
CREATE TABLE snk (c0 STRING, c1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT y, COUNT(*) FROM (SELECT x, y FROM t EXCEPT ALL SELECT x, y FROM u) GROUP BY y;
