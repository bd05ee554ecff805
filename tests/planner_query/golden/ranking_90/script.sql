CREATE TABLE g (a INT, b BIGINT) WITH ('connector'='datagen');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM g LIMIT 3;
