"""Paths that want out of a gateway's roots, through all that takes one: ten thousand with ``STATEPLAN_LONG``. What a
check lets through opens files below the roots only: the rows of files elsewhere, and their names, never appear."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stateplan.common.errors import GatewayError, StateplanError
from stateplan.common.files import below_roots, literal_for_hadoop, open_input, place_of, real_path
from stateplan.common.options import Role
from stateplan.common.roots import Roots, holding
from stateplan.common.secrets import resolve_references
from stateplan.connectors.delta.bounds import file_path
from stateplan.connectors.formats.base import FileColumns
from stateplan.connectors.listing import file_entries, table_files
from stateplan.connectors.partitions import list_partitions
from stateplan.connectors.registry import find_format
from stateplan.connectors.staging import Staging
from stateplan.gateway.service.confinement import Confinement
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.hostile_jobs import exchange
from tests.gateway.in_process_gateway import GatewayHere, gateway_here

CANARY = "C4NARY"
COUNT = 10_000 if os.environ.get("STATEPLAN_LONG") else 800


@dataclass
class Places:
    """A root, and a canary elsewhere."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"


def _fill(folder: Path, word: str) -> None:
    """A file of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "f.json").write_text(json.dumps({"a": word, "@at": 1}) + "\n")
    pq.write_table(pa.table({"a": [word]}), folder / "f.parquet")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    found = Places(tmp_path_factory.mktemp("hostile"))
    root = found.root
    for name in ("", "a", "a/b", "in[12]", "in1", "in2", "x{a,b}", "st*r", "q?", "b\\s", "p%20q", "%2e%2e", "c:d", "é"):
        _fill(root / name, "inside")
    _fill(found.outside, CANARY)
    _fill(found.folder / "root-evil", CANARY)
    _fill(found.folder / "é", CANARY)
    (root / "link").symlink_to(found.outside)
    (root / "a" / "link").symlink_to("../../outside/f.json")
    (root / "round").symlink_to(root / "round")
    (root / "deep").symlink_to(root / "a" / "b")
    (root / "up").symlink_to("..")
    return found


PIECES = (
    *("..", ".", "", "a", "b", "link", "round", "deep", "up", "outside", "root", "root-evil", "f.json", "f.parquet"),
    *("{..,a}", "{../outside,a}", "{../{../outside,a},b}", "[.][.]", "*", "?", "**", "in[12]", "x{a,b}", "st*r", "q?"),
    *("b\\s", "..\\", "\\..", "\\", "%2e%2e", "%252e%252e", "%2f", "..%2f", "%00", "\0", "p%20q", "c:d", "~", "$HOME"),
    *("e\u0301", "é", "\u2025", "\uff0e\uff0e", "\u2215", "\u202e", " ", "\n", "x" * 300, "::", ";", "#", "?v=1", "@h"),
)
HEADS = (
    *("", "", "", "file:", "FILE://", "file:///", "file://localhost", "File:////", "local:", "LOCAL://", "file://h"),
    *("hdfs://", "hdfs://h", "memory:", "memory://", "http://127.0.0.1:1", "s3://b", "simplecache::file://", "dir://"),
    *("zip://f.json::file://", "blockcache::", "file:file:", "filecache::local:", "reference://", "data:,", "ftp://h"),
)


def mutated(places: Places, seed: int = 40) -> Iterator[str]:
    """Paths made of pieces, the same every time."""
    dice = random.Random(seed)
    root, outside = str(places.root), str(places.outside)
    bases = (root, root, root, f"{root}/a", f"{root}/deep", os.path.relpath(root), outside, f"{root}-evil", "")
    ends = ("/in[12]/f.json", "/a/b/f.json", "/in1", "/a/f.parquet", "/x{a,b}", "/b\\s/f.json", "/deep/f.json", "/st*r")
    for _ in range(COUNT):
        path = dice.choice(bases)
        for _ in range(dice.randrange(5)):
            path += dice.choice(("/", "/", "/", "//", "", "\\")) + dice.choice(PIECES)
        match dice.randrange(12):
            case 0:
                path = quote(path)
            case 1:
                path = quote(quote(path))
            case 2:
                path = f"{path}/{{{'../' * dice.randrange(9)}{outside.lstrip('/')},a}}"
            case 3:
                path = path.replace("/", "/./")
            case 4:
                path = root + dice.choice(ends)
            case 5:
                path = path.replace("root", "[r]oot") if dice.random() < 0.5 else path.upper()
        yield dice.choice(HEADS) + path


def _decoded(path: str, key: str) -> str:
    fmt = find_format({"connector": "filesystem", "format": key}, Role.SOURCE)
    assert fmt is not None
    from stateplan.common.types import STRING

    decoder = fmt.decoder({}, (("a", STRING),), (0,), ())
    return " ".join(str(frame.to_dicts()) for frame in decoder.read(path))


def _read(path: str) -> str:
    with open_input(path) as file:
        return file.read(1000).decode(errors="replace")


def _staged(path: str) -> str:
    staging = Staging.at(path, "u")
    staging.commit(0, staging.stage(0, "p", "json", {"": b"x"}))
    return ""


READERS: dict[str, Callable[[str], str]] = {
    "listing": lambda path: str(table_files(path)),
    "sorted listing": lambda path: str(file_entries(path)),
    "lines": _read,
    "json": lambda path: _decoded(path, "json"),
    "parquet": lambda path: _decoded(path, "parquet"),
    "partitions": lambda path: str(list_partitions(path, ["p"], "none")),
    "facts": lambda path: str(FileColumns(path, ["file.path", "file.size"])._values),
    "secret": lambda path: resolve_references("${file:" + path + "}", "k"),
}


def test_what_the_check_lets_through_is_below_the_root(places: Places) -> None:
    """And all readers open what was checked."""
    confined = Confinement([str(places.root)])
    root, passed, read = str(places.root), 0, 0
    with holding(confined.roots):
        for number, path in enumerate(mutated(places)):
            try:
                real = confined.check_file(path)
            except GatewayError as error:
                assert error.code == "GW012"
                real = ""
            if real:
                passed += 1
                assert real == root or real.startswith(root + "/"), path
                local = place_of(path)
                assert local is not None and os.path.realpath(local) == real, path
            some = list(READERS)
            names = [some[number % len(some)], *(some[2:5] if real else ())]
            for name in names:
                try:
                    said = READERS[name](path)
                except (StateplanError, OSError, ValueError):
                    continue
                assert CANARY not in said, (name, path)
                read += "inside" in said
                assert real or "inside" not in said or name == "secret", (name, path)
    assert passed > COUNT // 10 and read > COUNT // 40


def test_nothing_is_written_elsewhere(places: Places, tmp_path: Path) -> None:
    mine = Places(tmp_path)
    _fill(mine.root / "a" / "b", "inside")
    _fill(mine.outside, CANARY)
    (mine.root / "link").symlink_to(mine.outside)
    (mine.root / "up").symlink_to("..")
    (mine.root / "deep").symlink_to(mine.root / "a" / "b")
    before = sorted(map(str, mine.outside.rglob("*"))), sorted(os.listdir(tmp_path)), sorted(os.listdir("."))
    written = 0
    with holding(Confinement([str(mine.root)]).roots):
        for path in list(mutated(mine, 41))[: max(COUNT // 10, 300)]:
            try:
                _staged(path)
                written += 1
            except (StateplanError, OSError, ValueError):
                continue
    assert written > 10
    assert before == (sorted(map(str, mine.outside.rglob("*"))), sorted(os.listdir(tmp_path)), sorted(os.listdir(".")))


def test_a_path_of_a_delta_log(places: Places) -> None:
    for path in mutated(places, 42):
        try:
            found = file_path(path)
        except ValueError:
            continue
        assert ".." not in found.split("/") and "\0" not in found, path


def test_hadoop_takes_every_path_as_it_is(places: Places) -> None:
    for path in mutated(places, 43):
        try:
            pattern = literal_for_hadoop(path)
        except StateplanError:
            continue
        except ValueError:  # it is no path
            continue
        plain, at = "", 0
        while at < len(pattern):
            assert pattern[at] not in "{}[]*?", path
            at += pattern[at] == "\\"
            plain += pattern[at]
            at += 1
        local = place_of(path)
        assert local is None or os.path.samestat(os.stat(plain[5:]), os.stat(local)) if _exists(local) else True


def _exists(local: str | None) -> bool:
    try:
        return local is not None and os.path.exists(local)
    except (OSError, ValueError):
        return False


def test_a_link_that_comes_between_the_check_and_the_opening(places: Places, tmp_path: Path) -> None:
    """A thread changes a folder to a link to a folder elsewhere, and back, all the time."""
    root, outside, spare = tmp_path / "root", tmp_path / "outside", tmp_path / "root" / "spare"
    _fill(root / "t", "inside")
    _fill(outside, CANARY)
    (root / "evil").symlink_to(outside)
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            os.rename(root / "t", spare)
            os.rename(root / "evil", root / "t")
            os.rename(root / "t", root / "evil")
            os.rename(spare, root / "t")

    thread = threading.Thread(target=change)
    thread.start()
    inside, refused = 0, 0
    try:
        with holding(Roots((real_path(str(root)),))):
            for _ in range(1000):
                try:
                    with open(root / "t" / "f.json", opener=below_roots) as file:
                        assert CANARY not in file.read()
                    inside += 1
                except (OSError, GatewayError):
                    refused += 1
    finally:
        over.set()
        thread.join()
    assert inside and refused


def test_no_listing_has_names_of_a_folder_elsewhere(tmp_path: Path) -> None:
    """A thread exchanges a folder and a link to a folder elsewhere, all the time."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "t" / "p=inside").mkdir(parents=True)
    (root / "t" / "inside.json").touch()
    (outside / f"p={CANARY}").mkdir(parents=True)
    (outside / f"{CANARY}.json").touch()
    (outside / f"{CANARY}.link").symlink_to("/")
    (root / "evil").symlink_to(outside)
    table, confined, over = str(root / "t"), Confinement([str(root)]), threading.Event()

    def change() -> None:
        while not over.is_set():
            exchange(root / "t", root / "evil")

    def check_links() -> str:
        confined.check_links({"path": table})
        return "inside"

    thread = threading.Thread(target=change)
    thread.start()
    inside, refused = 0, 0
    try:
        with holding(confined.roots):
            for number in range(1500):
                try:
                    match number % 3:
                        case 0:
                            said = str(table_files(table))
                        case 1:
                            said = str(list_partitions(table, ["p"], "none"))
                        case _:
                            said = check_links()
                    inside += "inside" in said
                except (StateplanError, OSError) as error:
                    said = str(error)
                    refused += 1
                assert CANARY not in said
    finally:
        over.set()
        thread.join()
    assert inside and refused


# through statements

TABLE = "(a STRING) WITH ('connector' = '{kind}', 'format' = '{fmt}', 'path' = '{path}')"
STATEMENTS = (
    "SELECT * FROM base /*+ OPTIONS('path' = '{path}') */",
    "SELECT * FROM lines /*+ OPTIONS('path' = '{path}') */",
    "SELECT * FROM played /*+ OPTIONS('path' = '{path}') */",
    "CREATE TABLE made (a STRING) WITH ('connector' = 'filesystem', 'format' = 'raw', 'path' = '{path}')",
    "CREATE TABLE made WITH ('path' = '{path}') LIKE base",
    "CREATE TABLE made (a STRING) WITH ('connector' = 'delta', 'table-path' = '{path}')",
    "CREATE TABLE made (a STRING) WITH ('connector' = 'print', 'print-identifier' = '${{file:{path}}}')",
    "CREATE CATALOG made WITH ('type' = 'delta', 'warehouse' = '{path}')",
    "CREATE CATALOG made WITH ('type' = 'file', 'path' = '{path}')",
    "ALTER TABLE base2 SET ('path' = '{path}')",
    "EXPLAIN PLAN '{path}'",
    "EXECUTE PLAN '{path}'",
    "ALTER PLAN '{path}' SET TTL '1 h' FOR deduplicate",
    "COMPILE PLAN '{path}' FOR INSERT INTO base SELECT 'x'",
    "SET 'execution.checkpointing.dir' = '{path}'",
    "SET 'execution.state-recovery.path' = '{path}'",
    "SET 'table.catalog-store.file.path' = '{path}'",
)
SKIPPED = ("\0",)
GOOD, ANY = (100, 500) if COUNT == 10_000 else (1, 3)
"""So many paths that the check lets through, and of any, each statement takes."""


@pytest.fixture(scope="module")
def gateway(places: Places) -> Iterator[GatewayHere]:
    limits = Limits(idle_timeout=0, max_queries=COUNT)
    service = SqlGatewayService(limits, folder=places.folder / "state", roots=[str(places.root)], keep_unknown=True)
    with gateway_here(service) as found:
        yield found


def test_statements_show_nothing_of_files_elsewhere(places: Places, gateway: GatewayHere) -> None:
    """Each takes some of the paths; those that the check lets through run in this process."""
    session, confined = gateway.session(), Confinement([str(places.root)])
    base = places.root / "a"
    for name, kind, fmt in (
        ("base", "filesystem", "json"),
        ("base2", "filesystem", "json"),
        ("lines", "filesystem", "raw"),
        ("played", "replay", "json"),
    ):
        declared = f"CREATE TABLE {name} " + TABLE.format(kind=kind, fmt=fmt, path=base)
        assert "OK" in gateway.run(session, declared).text
    dice = random.Random(44)
    paths = [path for path in mutated(places, 45) if not any(c in path for c in SKIPPED)]
    good = [path for path in paths if _passes(confined, path)]
    before = sorted(os.listdir(places.outside)), sorted(os.listdir(places.folder))
    refused = 0
    for statement in STATEMENTS:
        for path in [*dice.sample(good, GOOD), *dice.sample(paths, ANY)]:
            said = gateway.run(session, statement.format(path=path.replace("'", "''"))).text
            assert CANARY not in said, (statement, path)
            refused += "[GW012]" in said
            if not _passes(confined, path.partition("}")[0] if "${{" in statement else path):
                assert '"resultKind":"SUCCESS"' not in said and "inside" not in said.replace(path, ""), path
            gateway.run(session, "DROP TABLE IF EXISTS made")
            gateway.run(session, "DROP CATALOG IF EXISTS made")
        gateway.run(session, "RESET")
    assert refused > len(STATEMENTS) * ANY // 2
    assert before == (sorted(os.listdir(places.outside)), sorted(os.listdir(places.folder)))
    assert gateway.complaints() == []


def _passes(confined: Confinement, path: str) -> bool:
    try:
        return bool(confined.check_file(path))
    except GatewayError:
        return False
