CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE n (a INT NOT NULL, x BIGINT NOT NULL, y STRING) WITH ('connector'='filesystem', 'path'='/data/n', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT n.a, u.x FROM n FULL JOIN u ON n.a = u.a WHERE n.x > 3;
