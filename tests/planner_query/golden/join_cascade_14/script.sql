CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT /*+ STATE_TTL('t'='1 d') */ t.a, u.x FROM t LEFT JOIN u ON t.a = u.a WHERE t.b IN (SELECT w FROM v);
