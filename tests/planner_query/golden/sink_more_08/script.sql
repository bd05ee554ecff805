SET 'table.exec.sink.upsert-materialize' = 'FORCE';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE prg (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO prg SELECT id, g, v FROM dbz;
