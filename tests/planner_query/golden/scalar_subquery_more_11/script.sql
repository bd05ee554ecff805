CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE n (a INT NOT NULL, x BIGINT NOT NULL, y STRING) WITH ('connector'='filesystem', 'path'='/data/n', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT a, CASE WHEN a IN (SELECT a FROM n) THEN b ELSE 0 END FROM t;
