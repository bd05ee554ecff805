SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE p1 (g STRING) WITH ('connector'='print');
INSERT INTO p1 SELECT UPPER(g) FROM dbz WHERE id = 3 AND v < 2;
