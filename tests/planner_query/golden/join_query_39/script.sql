CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE snk (k BIGINT, n BIGINT, m BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a.user_id, a.n, b.n FROM (SELECT user_id, COUNT(*) AS n FROM events WHERE kind = 'a' GROUP BY user_id) a FULL JOIN (SELECT user_id, COUNT(*) AS n FROM events WHERE kind = 'b' GROUP BY user_id) b ON a.user_id = b.user_id;
