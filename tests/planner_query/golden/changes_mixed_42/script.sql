-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE up2 (a INT, b INT, c STRING, d INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json');
CREATE TABLE s (a INT, b INT, c STRING, d INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT u.a, u.b, d.g, d.v FROM up2 u JOIN dbz d ON u.b = d.id;
