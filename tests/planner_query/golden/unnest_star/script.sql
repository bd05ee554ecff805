CREATE TABLE t (a INT, b BIGINT, xs ARRAY<INT>, rs ARRAY<ROW<p INT, q STRING>>, m MAP<STRING, INT>) WITH ('connector'='filesystem', 'path'='/tmp/x/t', 'format'='json');
CREATE TABLE snk (a INT, b INT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b2 FROM t CROSS JOIN UNNEST(rs) AS s(b2, c) WHERE c = 'x';
