CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE m (a INT, path STRING METADATA FROM 'file.path' VIRTUAL, `file.size` BIGINT NOT NULL METADATA, b BIGINT NOT NULL) WITH ('connector'='filesystem','path'='${DIR}/m.json','format'='json');
CREATE TABLE snk (x INT, y BIGINT, z BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, MAX(s), MAX(m) FROM (SELECT a, c, COUNT(b) AS s, MIN(b) AS m FROM t GROUP BY a, c) GROUP BY a;
