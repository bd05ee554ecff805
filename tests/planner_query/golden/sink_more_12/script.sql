-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE mj (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/mj.json', 'format'='maxwell-json');
CREATE TABLE lu (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO lu SELECT id, g, v FROM mj;
