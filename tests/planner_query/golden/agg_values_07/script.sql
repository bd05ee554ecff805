CREATE TABLE snk (x0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT k FROM (VALUES (1), (2)) AS v(k) WHERE k > 1;
