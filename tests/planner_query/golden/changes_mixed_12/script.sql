-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE wmd (id INT, g STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/wmd.json', 'format'='debezium-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM wmd ON CONFLICT DO DEDUPLICATE;
