CREATE TABLE snk (x0 INT, x1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT -1, k FROM (VALUES (-1), (2)) AS v(k);
