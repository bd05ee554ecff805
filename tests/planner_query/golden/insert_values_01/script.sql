CREATE TABLE snk (a INT, b BIGINT, c STRING) WITH ('connector'='print');
INSERT INTO snk (c, a) VALUES ('x', 1), ('y', 2);
