-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.state.ttl' = '2 h';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE lui2 (c BIGINT, g STRING, PRIMARY KEY (c) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO lui2 SELECT c, g FROM (SELECT COUNT(*) AS c, g, id FROM dbz GROUP BY g, id) ON CONFLICT DO DEDUPLICATE;
