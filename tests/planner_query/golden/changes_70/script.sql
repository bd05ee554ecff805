-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.sink.upsert-materialize' = 'NONE';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE s (g STRING, n BIGINT, m INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT g, COUNT(*), MAX(v) FROM dbz GROUP BY g;
