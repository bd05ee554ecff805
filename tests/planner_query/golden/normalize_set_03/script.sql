CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE p1 (g STRING) WITH ('connector'='print');
CREATE TABLE pi (id INT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO pi SELECT id FROM ups;
INSERT INTO p1 SELECT g FROM ups;
END;
