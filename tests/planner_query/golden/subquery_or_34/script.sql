CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT SUM(CASE WHEN x IN (SELECT x FROM u) THEN 1 ELSE 0 END) FROM t;
