-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE luiv (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO luiv SELECT id, v + 1 FROM dbz;
