CREATE TABLE snk (x0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM UNNEST(ARRAY[1, 2]) AS T(x);
