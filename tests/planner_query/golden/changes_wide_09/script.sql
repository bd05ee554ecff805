-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE mxw (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/mxw.json', 'format'='maxwell-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM mxw WHERE g IN ('a', 'b') OR id = 3;
