-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.state.ttl' = '2 h';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE luk2 (g STRING, c BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert-key-delete');
INSERT INTO luk2 SELECT g, c FROM (SELECT g, COUNT(*) AS c FROM dbz GROUP BY g) WHERE c > 1;
