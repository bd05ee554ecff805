CREATE TABLE p (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE out_t (n BIGINT, a INT, c BIGINT) WITH ('connector'='print');
INSERT INTO out_t SELECT n, a, COUNT(*) FROM (SELECT COUNT(v) AS n, AVG(v) AS a FROM p WHERE id IS NULL) GROUP BY n, a;
