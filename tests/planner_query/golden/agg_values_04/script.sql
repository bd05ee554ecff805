CREATE TABLE snk (x0 INT, x1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, COUNT(*) FROM (VALUES (1), (2), (1)) AS v(k) GROUP BY k;
