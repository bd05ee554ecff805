CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE uno (a INT) WITH ('connector'='print');
INSERT INTO uno SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u JOIN v ON u.a = v.k WHERE u.x = t.b);
