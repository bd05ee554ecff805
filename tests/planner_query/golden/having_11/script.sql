CREATE TABLE m (a INT, path STRING METADATA FROM 'file.path' VIRTUAL, `file.size` BIGINT NOT NULL METADATA, b BIGINT NOT NULL) WITH ('connector'='filesystem','path'='${DIR}/m.json','format'='json');
CREATE TABLE snk (a INT, c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(b) FROM m GROUP BY a;
