CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE s1 (a INT, c STRING) WITH ('connector'='print');
CREATE TABLE s2 (a INT, c BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO s1 SELECT t.a, u.y FROM t JOIN u ON t.a = u.a;
INSERT INTO s2 SELECT t.a, u.x FROM t JOIN u ON t.a = u.a;
END;
