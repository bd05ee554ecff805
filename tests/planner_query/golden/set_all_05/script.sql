CREATE TABLE t (x INT, y STRING) WITH ('connector'='filesystem', 'path'='${DIR}/set_t.json', 'format'='json');
CREATE TABLE w (x BIGINT NOT NULL, y STRING NOT NULL) WITH ('connector'='filesystem', 'path'='${DIR}/set_w.json', 'format'='json');
CREATE TABLE snk (c0 BIGINT, c1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, y FROM t INTERSECT ALL SELECT x, y FROM w;
