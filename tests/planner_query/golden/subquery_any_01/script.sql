CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE w (x BIGINT NOT NULL, y STRING NOT NULL) WITH ('connector'='filesystem', 'path'='${DIR}/w.json', 'format'='json');
CREATE TABLE snk (c0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT x FROM t WHERE x = 1 OR x > ANY (SELECT x FROM u WHERE u.y = t.y);
