CREATE TABLE u (a INT, x BIGINT, y STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (y STRING, x BIGINT, rn BIGINT, PRIMARY KEY (y, rn) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk SELECT y, x, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY y ORDER BY x DESC) AS rn FROM u) WHERE rn <= 2;
