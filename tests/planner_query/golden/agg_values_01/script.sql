CREATE TABLE snk (x0 INT, x1 INT, x2 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM (VALUES (1, 2, 'Hi'), (3, 4, 'Hello'));
