-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE up2 (a INT, b INT, c STRING, d INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json');
CREATE TABLE s (a INT, b INT, c STRING, d INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT u.a, u.b, d.g, d.v FROM up2 u LEFT JOIN ups d ON u.a = d.id AND u.d > d.v;
