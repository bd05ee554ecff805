CREATE TABLE w (x BIGINT NOT NULL, y STRING NOT NULL) WITH ('connector'='filesystem', 'path'='${DIR}/w.json', 'format'='json');
CREATE TABLE snk (c0 BIGINT, c1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, y FROM w EXCEPT ALL SELECT x, y FROM w;
