CREATE TABLE snk (x0 INT, x1 BIGINT, x2 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(*), SUM(b) FROM (VALUES (1, 10), (2, 20), (1, 30)) AS v(a, b) GROUP BY a;
