CREATE TABLE m (a INT, path STRING METADATA FROM 'file.path' VIRTUAL, `file.size` BIGINT NOT NULL METADATA, b BIGINT NOT NULL) WITH ('connector'='filesystem','path'='${DIR}/m.json','format'='json');
CREATE TABLE snk (x BIGINT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT SUM(b), MAX(b) FROM m;
