CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE n (a INT NOT NULL, x BIGINT NOT NULL, y STRING) WITH ('connector'='filesystem', 'path'='/data/n', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT a, x FROM n WHERE a NOT IN (SELECT k FROM v);
