CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE s1 (a INT, b BIGINT) WITH ('connector'='print');
CREATE TABLE s2 (a INT, b BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN INSERT INTO s1 SELECT a, b FROM t LIMIT 3; INSERT INTO s2 SELECT a, b FROM t ORDER BY b LIMIT 3; END;
