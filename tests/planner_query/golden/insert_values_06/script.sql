CREATE TABLE snk (a INT, b STRING, c STRING) PARTITIONED BY (b) WITH ('connector'='filesystem','path'='${DIR}/out','format'='json');
INSERT INTO snk PARTITION (b='q') VALUES (1, 'x');
