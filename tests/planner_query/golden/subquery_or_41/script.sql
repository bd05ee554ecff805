CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 INT, c1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, CASE (SELECT MAX(x) FROM u) WHEN 1 THEN 'a' ELSE 'b' END FROM t;
