CREATE TABLE snk (a INT, b INT, c STRING) WITH ('connector'='print');
INSERT INTO snk (b, a, c) VALUES (1, 2, 'x'), (3, 4, 'yy');
