SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE s1 (a INT, x BIGINT) WITH ('connector'='print', 'print-identifier'='s1');
CREATE TABLE s2 (a BIGINT, x BIGINT) WITH ('connector'='print', 'print-identifier'='s2');
EXECUTE STATEMENT SET BEGIN INSERT INTO s1 SELECT a, COUNT(DISTINCT b) FROM t GROUP BY a; INSERT INTO s2 SELECT x, COUNT(*) FROM (SELECT a, COUNT(DISTINCT b) AS x FROM t GROUP BY a) GROUP BY x; END;
