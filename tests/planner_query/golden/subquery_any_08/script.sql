CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE w (x BIGINT NOT NULL, y STRING NOT NULL) WITH ('connector'='filesystem', 'path'='${DIR}/w.json', 'format'='json');
CREATE TABLE snk (c0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT t.x FROM t JOIN u ON t.x = u.x AND EXISTS (SELECT 1 FROM w);
