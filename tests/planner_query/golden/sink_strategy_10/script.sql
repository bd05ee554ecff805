-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.sink.upsert-materialize-strategy.type' = 'MAP';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE lu (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO lu SELECT id, g, v FROM dbz;
