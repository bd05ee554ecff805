SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE pr (id INT, g STRING, v INT) WITH ('connector'='print');
CREATE TABLE bh (id INT, g STRING, v INT) WITH ('connector'='blackhole');
EXECUTE STATEMENT SET BEGIN
INSERT INTO pr SELECT id, g, v FROM dbz WHERE v > 1;
INSERT INTO bh SELECT id, g, v FROM dbz WHERE id > 2;
END;
