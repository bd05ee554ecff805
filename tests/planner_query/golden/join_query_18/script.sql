CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE snk (k BIGINT, s STRING, r STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a.id, a.kind, b.kind FROM events a JOIN events b ON a.user_id = b.user_id AND a.id < b.id WHERE a.kind <> b.kind;
