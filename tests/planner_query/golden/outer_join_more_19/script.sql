CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT t.a, u.x FROM t JOIN u ON t.a = u.a WHERE t.a IS NULL;
