CREATE TABLE n (id INT, xs ARRAY<INT>, rs ARRAY<ROW<k INT, v STRING>>, m MAP<STRING, INT>, ss ARRAY<STRING>, arr2 ARRAY<ARRAY<INT>>) WITH ('connector'='filesystem', 'path'='${DIR}/n.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, x FROM (SELECT id, xs FROM n WHERE id < 4) AS q CROSS JOIN UNNEST(q.xs) AS T(x);
