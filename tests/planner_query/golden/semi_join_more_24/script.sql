CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE uno (a INT) WITH ('connector'='print');
INSERT INTO uno SELECT 1 FROM t WHERE a IN (SELECT a FROM u);
