CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT a, b, ROW_NUMBER() OVER w AS rn FROM t WINDOW w AS (PARTITION BY a ORDER BY b DESC)) WHERE rn <= 3;
