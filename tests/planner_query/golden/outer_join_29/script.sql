CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE n (a INT NOT NULL, x BIGINT NOT NULL, y STRING) WITH ('connector'='filesystem', 'path'='/data/n', 'format'='json');
CREATE TABLE four (a INT, b BIGINT, c INT, d BIGINT) WITH ('connector'='print');
INSERT INTO four SELECT n.a, n.x, u.a, u.x FROM n LEFT JOIN u ON n.a = u.a;
