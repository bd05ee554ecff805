CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE VIEW v1 AS SELECT a, x FROM u WHERE x > 3;
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT /*+ STATE_TTL('v1'='2 h') */ a, COUNT(*) FROM v1 GROUP BY a;
