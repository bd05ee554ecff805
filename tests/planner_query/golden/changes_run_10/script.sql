-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
-- @upsert-key: 0
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='debezium-json');
CREATE TABLE oth (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/oth.json', 'format'='op-json');
CREATE TABLE snk (v INT, g STRING, w INT, PRIMARY KEY (v) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO snk SELECT src.v, src.g, oth.v FROM src JOIN oth ON src.g = oth.g ON CONFLICT DO DEDUPLICATE;
