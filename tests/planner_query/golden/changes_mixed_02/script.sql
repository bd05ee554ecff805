-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE wmu (id INT, g STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/wmu.json', 'format'='op-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM wmu ON CONFLICT DO ERROR;
