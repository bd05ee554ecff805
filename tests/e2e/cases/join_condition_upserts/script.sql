-- @upsert-key: 0
CREATE TABLE seats (sid INT, price INT, PRIMARY KEY(sid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/s.json','format'='debezium-json');
CREATE TABLE caps (sid INT, cap INT, PRIMARY KEY(sid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE out_t (sid INT, price INT, cap INT, PRIMARY KEY(sid) NOT ENFORCED) WITH ('connector'='labsink','mode'='upsert');
INSERT INTO out_t SELECT s.sid,s.price,c.cap FROM seats s JOIN caps c ON s.sid=c.sid AND s.price < c.cap;
