SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE piv (id INT, v INT) WITH ('connector'='print');
INSERT INTO piv SELECT id, v + 1 FROM dbz WHERE v > 3 AND g LIKE 'a%';
