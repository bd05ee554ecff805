-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE cmp (id INT, g STRING, v INT, w AS v * 2, f STRING METADATA FROM 'file.name' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/cmp.json', 'format'='op-json');
CREATE TABLE s (w INT, n BIGINT, PRIMARY KEY (w) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT w, COUNT(DISTINCT f) FROM cmp GROUP BY w;
