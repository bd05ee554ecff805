CREATE TABLE v (n INT, a INT, b BIGINT) WITH ('connector'='filesystem','path'='${DIR}/ranking_10_v.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS rn FROM v) WHERE rn <= n;
