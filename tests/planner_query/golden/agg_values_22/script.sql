CREATE TABLE snk (x0 BIGINT, x1 STRING) WITH ('connector'='print');
INSERT INTO snk VALUES (1, 'a'), (2, 'b');
