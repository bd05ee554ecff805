CREATE TABLE snk (x0 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT UPPER('abc');
