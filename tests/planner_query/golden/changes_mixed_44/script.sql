-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE up2 (a INT, b INT, c STRING, d INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json');
CREATE TABLE s (a INT, b INT, c STRING, d INT) WITH ('connector'='print', 'changelog-mode'='retract');
INSERT INTO s SELECT u.a, u.b, u.c, x.b FROM up2 u FULL JOIN up2 x ON u.a = x.a AND u.b = x.b;
