CREATE TABLE t (a INT, b BIGINT, xs ARRAY<INT>, rs ARRAY<ROW<p INT, q STRING>>, m MAP<STRING, INT>) WITH ('connector'='filesystem', 'path'='/tmp/x/t', 'format'='json');
CREATE TABLE snk (x INT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT x, COUNT(*) FROM t CROSS JOIN UNNEST(xs) AS s(x) GROUP BY x;
