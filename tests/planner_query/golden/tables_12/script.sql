CREATE TABLE g (a INT, b STRING, d DOUBLE) WITH ('connector'='datagen','number-of-rows'='10','fields.a.max'='3');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(*) FROM g WHERE d > 1 GROUP BY a;
