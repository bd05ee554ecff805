CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_31_t.json','format'='json');
CREATE TABLE snk (a BIGINT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT COUNT(*), MAX(b) FROM (SELECT a, b FROM t LIMIT 5);
