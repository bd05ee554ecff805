-- @upsert-key: 0
CREATE TABLE baskets (bid INT, who STRING, PRIMARY KEY(bid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/b.json','format'='debezium-json');
CREATE TABLE notes (bid INT, txt STRING, PRIMARY KEY(bid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/g.json','format'='debezium-json');
CREATE TABLE out_t (bid INT, who STRING, txt STRING, PRIMARY KEY(bid) NOT ENFORCED) WITH ('connector'='labsink','mode'='upsert');
INSERT INTO out_t SELECT b.bid,b.who,g.txt FROM baskets b LEFT JOIN notes g ON b.bid=g.bid;
