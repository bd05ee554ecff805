CREATE TABLE o (oid INT, cid INT, total DOUBLE, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE c (id INT, name STRING, age INT, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='json');
CREATE TABLE s1 (oid INT, name STRING) WITH ('connector'='print');
CREATE TABLE s2 (oid INT, name STRING) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN INSERT INTO s1 SELECT o.oid, c.name FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt ON o.cid = c.id; INSERT INTO s2 SELECT o.oid, c.name FROM o LEFT JOIN c FOR SYSTEM_TIME AS OF o.pt ON o.cid = c.id; END;
