CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT a, b FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE x.a = y.a AND x.b <> y.b);
