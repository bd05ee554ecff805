CREATE TABLE u (a INT, x BIGINT, y STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY y ORDER BY x DESC) AS rn FROM u) WHERE rn <= 2;
