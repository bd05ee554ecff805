CREATE TABLE snk (x0 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT COUNT(*) FROM (VALUES (1), (2)) AS v(k);
