-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE can (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/can.json', 'format'='canal-json');
CREATE TABLE s (id INT, g STRING, v INT, w INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT x.id, x.g, x.v, y.v FROM dbz x JOIN can y ON x.id = y.id;
