CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE VIEW v AS SELECT a, b, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt DESC) AS rn FROM p) WHERE rn = 1;
CREATE TABLE s1 (a INT, b BIGINT) WITH ('connector'='print');
CREATE TABLE s2 (a INT, b BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO s1 SELECT a, b FROM v;
INSERT INTO s2 SELECT a, COUNT(*) FROM v GROUP BY a;
END;
