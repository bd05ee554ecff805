-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE wmd (id INT, g STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/wmd.json', 'format'='debezium-json');
CREATE TABLE s (g STRING, n BIGINT, m INT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT g, COUNT(*), MAX(v) FROM wmd GROUP BY g ON CONFLICT DO NOTHING;
