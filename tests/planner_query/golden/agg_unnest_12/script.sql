CREATE TABLE snk (x0 INT) WITH ('connector'='print');
INSERT INTO snk SELECT x FROM UNNEST(ARRAY[1, 2, 3]) AS T(x);
