-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE wma (id INT, g STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='${DIR}/wma.json', 'format'='json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM wma ON CONFLICT DO ERROR;
