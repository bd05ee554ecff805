CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE n (a INT NOT NULL, x BIGINT NOT NULL, y STRING) WITH ('connector'='filesystem', 'path'='/data/n', 'format'='json');
CREATE TABLE upd (a INT, b BIGINT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='blackhole');
INSERT INTO upd SELECT l.a, r.n FROM (SELECT a, COUNT(*) m FROM t GROUP BY a) l JOIN (SELECT a, COUNT(*) n FROM u GROUP BY a) r ON l.a = r.a;
