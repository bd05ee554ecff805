CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE n (a INT NOT NULL, x BIGINT NOT NULL, y STRING) WITH ('connector'='filesystem', 'path'='/data/n', 'format'='json');
CREATE TABLE uno (a INT) WITH ('connector'='print');
INSERT INTO uno SELECT a FROM n EXCEPT SELECT a FROM t;
