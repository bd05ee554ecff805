CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (c0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT x FROM t WHERE x = 1 OR x > ALL (SELECT x FROM u);
