SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE p2 (g STRING, c BIGINT) WITH ('connector'='print');
INSERT INTO p2 SELECT g, COUNT(*) FROM dbz WHERE v > 1 AND id < 10 GROUP BY g;
