CREATE TABLE snk (x0 INT, x1 DOUBLE) WITH ('connector'='print');
INSERT INTO snk SELECT 1 + 2, PI();
