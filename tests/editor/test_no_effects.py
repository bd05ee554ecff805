"""A document has no effect: no connection, no process, no written file, no import, no reading outside the workspace."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.editor.reading import codes

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
from pathlib import Path
from tests.editor.reading import insight

text, folder = sys.stdin.read(), Path(sys.argv[1])
insight("CREATE TABLE a (b INT) WITH ('connector' = 'datagen'); SELECT b, COUNT(*) FROM a GROUP BY b;", folder)
packages = tuple(sys.argv[2].split(":"))
events = []


def note(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.fork",
                 "os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree", "os.posix_spawn"):
        events.append((event, str(arguments)[:200]))
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        path = str(Path(arguments[0] if isinstance(arguments[0], str) else arguments[0].decode()).resolve())
        writes = event == "open" and (set(str(arguments[1] or "")) & set("wax+") or (arguments[2] or 0) & 3)
        if writes or not path.startswith((*packages, str(folder), "/proc", "/sys", "/usr/share/zoneinfo")):
            events.append((event, path))


sys.addaudithook(note)
insight(text, folder)
print(events, [name for name in ("side_effect", "pyspark") if name in sys.modules])
"""

EFFECTS = """\
CREATE FUNCTION f AS 'side_effect.f' LANGUAGE PYTHON;
CREATE CATALOG pg WITH ('type' = 'jdbc', 'base-url' = 'jdbc:postgresql://127.0.0.1:1', 'default-database' = 'd',
  'username' = 'u', 'password' = '${file:/etc/passwd}');
CREATE CATALOG lake WITH ('type' = 'delta', 'warehouse' = '/etc');
CREATE CATALOG old_state WITH ('type' = 'state', 'path' = '/etc');
CREATE TABLE secret (a INT, dt STRING) PARTITIONED BY (dt)
  WITH ('connector' = 'filesystem', 'path' = '/etc', 'format' = 'json');
CREATE TABLE remote (a INT, dt STRING) PARTITIONED BY (dt)
  WITH ('connector' = 'filesystem', 'path' = 's3://bucket/x', 'format' = 'json');
CREATE TABLE k (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = '127.0.0.1:1',
  'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE j (a INT) WITH ('connector' = 'jdbc', 'url' =
  'jdbc:postgresql://127.0.0.1:1/x', 'table-name' = 't', 'username' = 'u', 'password' = 'p');
CREATE TABLE d (a INT, dt STRING) PARTITIONED BY (dt) WITH ('connector' = 'delta', 'table-path' = '/etc/delta');
CREATE TABLE written WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS SELECT a FROM k;
SELECT f(a) FROM k;
SELECT * FROM pg.d.t;
SELECT * FROM lake.d.t;
SELECT a FROM secret WHERE dt = '1';
SELECT a FROM remote WHERE dt = '1';
SELECT a FROM d WHERE dt = '1';
INSERT INTO j SELECT a FROM k;
EXECUTE PLAN '/etc/passwd';
EXECUTE PLAN 'plan.json';
COMPILE PLAN 'new.json' FOR INSERT INTO j SELECT a FROM k;
ALTER PLAN '/etc/passwd' SET TTL '1 d' FOR join.left;
DROP TABLE k;
SHOW TABLES;
STOP JOB 'x';
USE CATALOG lake;
SET 'table.catalog-store.kind' = 'file';
USE CATALOG stored;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "side_effect.py").write_text("raise SystemExit('imported')\n")
    return tmp_path


def test_a_document_has_no_effect(folder: Path) -> None:
    packages = {str(ROOT), sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
    packages |= {str(Path(path).resolve()) for path in packages}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), ":".join(packages)],
        input=EFFECTS,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (ended.stdout.strip(), ended.stderr) == ("[] []", "")
    assert sorted(path.name for path in folder.iterdir()) == ["side_effect.py"]


def test_what_is_not_checked_says_so(folder: Path) -> None:
    findings = codes(EFFECTS, folder)
    assert {code for code, _ in findings} == {"EDIT001"}
    assert [text for _, text in findings] == [
        "SELECT f(a) FROM k",
        "pg.d.t",
        "lake.d.t",
        "SELECT a FROM secret WHERE dt = '1'",
        "SELECT a FROM remote WHERE dt = '1'",
        "'/etc/passwd'",
        "'/etc/passwd'",
    ]
