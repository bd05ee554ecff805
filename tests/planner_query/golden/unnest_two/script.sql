CREATE TABLE t (a INT, b BIGINT, xs ARRAY<INT>, rs ARRAY<ROW<p INT, q STRING>>, m MAP<STRING, INT>) WITH ('connector'='filesystem', 'path'='/tmp/x/t', 'format'='json');
CREATE TABLE snk (x INT, y STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, q FROM t CROSS JOIN UNNEST(xs) AS s(x) CROSS JOIN UNNEST(rs) AS r(p, q);
