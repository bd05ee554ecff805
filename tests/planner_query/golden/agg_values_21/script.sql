CREATE TABLE snk (x0 INT, x1 STRING) WITH ('connector'='print');
INSERT INTO snk VALUES (1, 'a'), (2, 'bcd');
