CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 INT, c1 BOOLEAN) WITH ('connector'='print');
INSERT INTO snk SELECT x, x IN (SELECT x FROM u WHERE u.y = t.y) FROM t;
