-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE s (g STRING, n BIGINT, m INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT g, COUNT(*), MAX(v) FROM app GROUP BY g;
