-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE up2 (a INT, b INT, c STRING, d INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json');
CREATE TABLE s (a INT, b INT, c STRING, d BIGINT, PRIMARY KEY (a, c) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT a, 1, c, COUNT(*) FROM up2 GROUP BY a, c;
