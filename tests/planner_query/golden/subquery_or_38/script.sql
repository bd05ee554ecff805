CREATE TABLE w (x BIGINT NOT NULL, y STRING NOT NULL) WITH ('connector'='filesystem', 'path'='${DIR}/w.json', 'format'='json');
CREATE TABLE snk (c0 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT x FROM w WHERE x = 1 OR x IN (SELECT x FROM w);
