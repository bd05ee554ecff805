CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE VIEW v AS SELECT a, SUM(b) AS b FROM t GROUP BY a;
CREATE TABLE s1 (a INT, b BIGINT) WITH ('connector'='print');
CREATE TABLE s2 (a INT, b BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO s1 SELECT * FROM v WHERE a > 1;
INSERT INTO s2 SELECT * FROM v;
END;
