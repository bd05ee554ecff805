CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 STRING, x2 INT) WITH ('connector'='print');
INSERT INTO snk SELECT a, JSON_ARRAYAGG(b NULL ON NULL), CARDINALITY(COLLECT(c)) FROM t GROUP BY a;
