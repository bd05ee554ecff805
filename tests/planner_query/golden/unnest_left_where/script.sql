CREATE TABLE t (a INT, b BIGINT, xs ARRAY<INT>, rs ARRAY<ROW<p INT, q STRING>>, m MAP<STRING, INT>) WITH ('connector'='filesystem', 'path'='/tmp/x/t', 'format'='json');
CREATE TABLE snk (a INT, x INT) WITH ('connector'='print');
INSERT INTO snk SELECT a, x FROM t LEFT JOIN UNNEST(xs) AS s(x) ON TRUE WHERE x > 3;
