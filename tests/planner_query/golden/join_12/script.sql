CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE m (a INT, path STRING METADATA FROM 'file.path' VIRTUAL, `file.size` BIGINT NOT NULL METADATA, b BIGINT NOT NULL) WITH ('connector'='filesystem','path'='${DIR}/m.json','format'='json');
CREATE TABLE snk (x INT, y BIGINT, z BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT q.a, q.s, r.m FROM (SELECT a, SUM(b) AS s FROM t GROUP BY a) q JOIN (SELECT a, MAX(x) AS m FROM u GROUP BY a) r ON q.a = r.a;
