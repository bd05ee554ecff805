CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE n (a INT NOT NULL, x BIGINT NOT NULL, y STRING) WITH ('connector'='filesystem', 'path'='/data/n', 'format'='json');
CREATE TABLE four (a INT, b BIGINT, c INT, d BIGINT) WITH ('connector'='print');
INSERT INTO four SELECT t.a, t.b, n.a, n.x FROM t LEFT JOIN n ON t.a = n.a;
