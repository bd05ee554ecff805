CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE uno (a INT) WITH ('connector'='print');
INSERT INTO uno SELECT a FROM t EXCEPT (SELECT a FROM u UNION ALL SELECT k FROM v);
