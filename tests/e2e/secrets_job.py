"""Jobs of a gateway over tables with secrets, and the gateway after it: run by ``test_secrets_stay_secret.py``.

Args:
    folder: for everything that is written.
    secrets: a JSON object; what nobody must write.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from stateplan_vault import digest

from stateplan.common.errors import StateplanError
from stateplan.gateway.protocol import PageKind
from stateplan.gateway.service.service import RESTARTING, InProcessSession, SqlGatewayService

FOLDER, GIVEN = Path(sys.argv[1]), json.loads(os.environ["GIVEN_SECRETS"])
TABLE, URL, HINT, SPARK = (GIVEN[name] for name in ("table", "url", "hint", "spark"))
found: list[str] = []


def search(when: str) -> None:
    """Notes every file below the folder that has a secret in it."""
    for path in (p for p in FOLDER.rglob("*") if p.is_file()):
        with suppress(OSError):
            data = path.read_bytes()
            found.extend(f"{when}: {path}" for secret in GIVEN.values() if secret.encode() in data)


def vault(name: str, **options: str) -> str:
    listed = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
    return f"CREATE TABLE {name} (a INT) WITH ('connector' = 'vault', {listed})"


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def pages(session: InProcessSession, statement: str) -> Iterator[list[str | None]]:
    operation, token = session.submit(statement), 0
    while (page := session.fetch(operation, token)).kind is not PageKind.EOS:
        yield from (list(fields) for _, fields in page.rows)
        token = page.next_token if page.next_token is not None else token


def run(session: InProcessSession, statement: str) -> list[list[str | None]]:
    """The rows of a statement; the text of its error goes to the report."""
    try:
        return list(pages(session, statement))
    except StateplanError as error:
        said.append(str(error))
        return []


said: list[str] = []
FLINK = FOLDER.parent / "flink.json"
options = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": str(FOLDER / "events"),
    "spark.hadoop.vault.password": SPARK,
}
(FOLDER / "events").mkdir()
service = SqlGatewayService(options=options, folder=FOLDER / "gateway", keep_unknown=True)
session = service.open_session("one", {"mine.password": SPARK})
for statement in (
    vault("few", digest=digest(TABLE), password=TABLE),
    vault("endless", digest=digest(URL), url=f"vault://joe:{URL}@host/", rows="0"),
    vault("by_reference", digest=digest(TABLE), password="${env:VAULT_KEY}", rows="0"),
    *(vault(f"out_{i}", digest=digest(TABLE), password=TABLE, file=f"{FOLDER}/out_{i}") for i in (0, 1, 2, 4)),
    vault("out_3", digest=digest(TABLE), password="${env:VAULT_KEY}", file=f"{FOLDER}/out_3"),
    f"CREATE TABLE broken (a INT) WITH ('connector' = 'vault', 'passwort' = 'x', 'password' = '{TABLE}')",
    "SELECT a FROM broken",
    f"SELECT nosuch FROM few /*+ OPTIONS('password' = '{HINT}') */",
    f"INSERT INTO out_0 SELECT a FROM few /*+ OPTIONS('digest' = '{digest(HINT)}', 'password' = '{HINT}') */",
    f"INSERT INTO out_1 SELECT a FROM few /*+ OPTIONS('password' = '{HINT}') */",
    f"COMPILE PLAN '{FLINK}' FOR INSERT INTO out_4 SELECT a FROM few",
    "INSERT INTO out_2 SELECT a FROM endless",
    "INSERT INTO out_3 SELECT a FROM by_reference",
):
    run(session, statement)
FLINK.write_text(re.sub(r"\$\{session:[^}]*\}", TABLE, FLINK.read_text()))  # as Flink writes it
run(service.open_session("two", {}), f"EXECUTE PLAN '{FLINK}'")
until(lambda: sum(entry.is_running for entry in service.jobs.entries()) == 2)
until(lambda: all((FOLDER / f"out_{i}").exists() for i in (0, 2, 3, 4)))
listed = [*run(session, "SHOW JOBS"), *run(session, "SET"), *run(session, "SHOW CREATE TABLE few")]
search("running")
service.stop()
search("stopped")
service = SqlGatewayService(options=options, folder=FOLDER / "gateway", keep_unknown=True)
until(lambda: all(entry.status != RESTARTING for entry in service.jobs.entries()))
until(lambda: any(entry.is_running for entry in service.jobs.entries()))
states = {entry.name: [entry.status, entry.error] for entry in service.jobs.entries()}
search("recovered")
service.stop()
search("over")
plans = [path.read_text() for path in (FOLDER / "gateway" / "jobs").glob("*/plan.json")]
clean, found = found, []
(FOLDER / "canary").write_text(f"x{URL}x")
search("canary")
report = {
    "found": clean,
    "canary": found,
    "plans": plans,
    "states": states,
    "listed": listed,
    "said": said,
    "out": [(FOLDER / f"out_{i}").read_text() for i in (0, 4)],
}
(FOLDER / "report.json").write_text(json.dumps(report))
