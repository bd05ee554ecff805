CREATE TABLE snk (x0 INT, x1 BOOLEAN) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM (VALUES (1, TRUE), (2, FALSE)) AS v(a, b) WHERE b;
