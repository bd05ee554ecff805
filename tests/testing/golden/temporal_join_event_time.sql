-- Flink's golden case temporal_join_event_time.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE o (oid INT, cur STRING, amt INT, ot TIMESTAMP(3), WATERMARK FOR ot AS ot - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='/data/o.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE r (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/r.json', 'format'='debezium-json', 'debezium-json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (oid INT, cur STRING, amt INT, rate INT, ot TIMESTAMP(3), rt TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, o.cur, o.amt, r.rate, o.ot, r.rt FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur = r.cur;

-- test: the tables are those of Flink
-- given o
--   | oid | cur  | amt | ot                  |
--   | 1   | EUR  | 1   | 2024-01-01T00:00:01 |
--   | 2   | EUR  | 2   | 2024-01-01T00:00:05 |
--   | 3   | USD  | 3   | 2024-01-01T00:00:06 |
--   | 4   | EUR  | 4   | 2024-01-01T00:00:04 |
--   | 5   | GBP  | 5   | 2024-01-01T00:00:07 |
--   | 6   | EUR  | 6   | 2024-01-01T00:00:12 |
--   | 7   | NULL | 7   | 2024-01-01T00:00:13 |
-- given r
--      | cur | rate | rt                  |
--   +I | EUR | 100  | 2024-01-01T00:00:02 |
--   +I | USD | 90   | 2024-01-01T00:00:03 |
--   -U | EUR | 100  | 2024-01-01T00:00:05 |
--   +U | EUR | 110  | 2024-01-01T00:00:05 |
--   -D | EUR | 110  | 2024-01-01T00:00:10 |
--   +I | GBP | 80   | 2024-01-01T00:00:09 |
--   +I | ZZZ | 1    | 2024-01-01T00:00:20 |
-- end
-- expect table
--   | oid | cur  | amt | rate | ot                  | rt                  |
--   | 1   | EUR  | 1   | NULL | 2024-01-01 00:00:01 | NULL                |
--   | 2   | EUR  | 2   | 110  | 2024-01-01 00:00:05 | 2024-01-01 00:00:05 |
--   | 3   | USD  | 3   | 90   | 2024-01-01 00:00:06 | 2024-01-01 00:00:03 |
--   | 4   | EUR  | 4   | 100  | 2024-01-01 00:00:04 | 2024-01-01 00:00:02 |
--   | 5   | GBP  | 5   | NULL | 2024-01-01 00:00:07 | NULL                |
--   | 6   | EUR  | 6   | NULL | 2024-01-01 00:00:12 | NULL                |
--   | 7   | NULL | 7   | NULL | 2024-01-01 00:00:13 | NULL                |
