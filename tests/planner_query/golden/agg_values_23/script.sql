CREATE TABLE snk (x0 INT, x1 STRING) WITH ('connector'='print');
INSERT INTO snk VALUES (1, CAST(NULL AS STRING)), (2, 'b');
