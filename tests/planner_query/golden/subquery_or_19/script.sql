CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 INT, c1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT x, CASE WHEN x > 2 THEN (SELECT MAX(x) FROM u) ELSE 0 END FROM t;
