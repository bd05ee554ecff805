CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE s1 (a INT, b BIGINT, c STRING) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO s1 (a, b) SELECT a, b FROM t;
INSERT INTO s1 (a, c) SELECT a, y FROM u;
END;
