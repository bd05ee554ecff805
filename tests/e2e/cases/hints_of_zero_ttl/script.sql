-- @upsert-key: 0
SET 'table.exec.state.ttl'='2 s';
CREATE TABLE prov (pid INT, pr INT, PRIMARY KEY(pid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE person (pr INT, g STRING, PRIMARY KEY(pr) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE usr (uid INT, pr INT, un STRING, PRIMARY KEY(uid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE rol (uid INT, r STRING, PRIMARY KEY(uid,r) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE out_t (pid INT, g STRING, un STRING, roles STRING, PRIMARY KEY(pid) NOT ENFORCED) WITH ('connector'='labsink','mode'='upsert');
INSERT INTO out_t SELECT /*+ STATE_TTL('wu'='0','ur'='0') */ wu.pid, wu.g, wu.un, ur.roles FROM (
  SELECT /*+ STATE_TTL('wp'='0','usr'='0') */ wp.*, usr.un FROM (
    SELECT /*+ STATE_TTL('prov'='0','person'='0') */ prov.pid, prov.pr, person.g FROM prov LEFT JOIN person ON prov.pr=person.pr) wp
  LEFT JOIN usr ON wp.pr=usr.pr) wu
 LEFT JOIN (SELECT /*+ STATE_TTL('rr'='0') */ rr.pr, LISTAGG(rr.r, '+') AS roles FROM (SELECT /*+ STATE_TTL('u'='0','x'='0') */ u.pr, x.r FROM usr u JOIN rol x ON u.uid=x.uid) rr GROUP BY rr.pr) ur ON ur.pr = wu.pr
 ON CONFLICT DO DEDUPLICATE;
