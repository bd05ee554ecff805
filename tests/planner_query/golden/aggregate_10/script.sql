CREATE TABLE m (a INT, path STRING METADATA FROM 'file.path' VIRTUAL, `file.size` BIGINT NOT NULL METADATA, b BIGINT NOT NULL) WITH ('connector'='filesystem','path'='${DIR}/m.json','format'='json');
CREATE TABLE snk (a INT, x BIGINT, y BIGINT, z BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, AVG(b), SUM(b), COUNT(*) FROM m GROUP BY a;
