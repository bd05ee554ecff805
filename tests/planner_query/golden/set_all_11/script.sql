CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 INT, c1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, y FROM (SELECT x, y FROM t INTERSECT ALL SELECT x, y FROM u) WHERE x > 3;
