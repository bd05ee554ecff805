CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk SELECT x.a, u.x FROM (SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS rn FROM t) WHERE rn = 1) x LEFT JOIN u ON x.a = u.a;
