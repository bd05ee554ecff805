CREATE TABLE snk (x0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT DISTINCT k FROM (VALUES (1), (2), (1)) AS v(k);
