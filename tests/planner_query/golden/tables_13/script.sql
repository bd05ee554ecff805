CREATE TEMPORARY TABLE tt (a INT, b BIGINT) WITH ('connector'='filesystem','path'='${DIR}/o','format'='csv');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM tt;
