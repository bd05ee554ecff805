-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
-- @upsert-key: 0
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='debezium-json');
CREATE TABLE snk (g STRING, n BIGINT, m INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO snk SELECT COALESCE(g, 'none'), COUNT(*), MAX(v) FROM src GROUP BY COALESCE(g, 'none');
