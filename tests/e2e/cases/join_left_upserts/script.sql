-- @upsert-key: 0
CREATE TABLE baskets (bid INT, who STRING, PRIMARY KEY(bid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/b.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE gifts (gid INT, bid INT, txt STRING, PRIMARY KEY(gid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/g.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE out_t (bid INT, who STRING, gid INT, txt STRING, PRIMARY KEY(bid) NOT ENFORCED) WITH ('connector'='labsink','mode'='upsert');
INSERT INTO out_t SELECT b.bid,b.who,g.gid,g.txt FROM baskets b LEFT JOIN gifts g ON b.bid=g.gid;
