CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT k, b FROM t NATURAL LEFT JOIN v;
