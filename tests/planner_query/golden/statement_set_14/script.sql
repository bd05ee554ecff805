CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE s1 (a INT, b BIGINT) WITH ('connector'='print');
CREATE TABLE s2 (a INT, b BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO s1 SELECT b2, a FROM (SELECT b, CAST(b AS INT) AS b2, CAST(a AS BIGINT) AS a FROM t);
INSERT INTO s2 SELECT a, b + 1 FROM t;
END;
