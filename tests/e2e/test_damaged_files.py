"""A checkpoint with a damaged file: the error names the file, what it holds and what to do."""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from stateplan.common.errors import CheckpointError
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.damage import check_blocks, explain_damage, find_damage
from stateplan.session.environment import TableEnvironment

SST = "000008-fe5e1f77-b45e-4b3d-b536-f6ceac82f094.sst"


def gone(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


Damage = Callable[[Path], None]


@dataclass(frozen=True)
class Operator:
    name: str
    level: int


OPERATORS = [Operator("join[4]", 1), Operator("dedup[3]", 1), Operator("sum[7]", 2)]


@pytest.fixture
def spark_files(tmp_path: Path) -> Path:
    """What Spark writes of four micro-batches: a snapshot after the second, changelogs of the others."""
    folder = tmp_path / "spark"

    def write(place: str, content: bytes) -> None:
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        sums = [zlib.crc32(content[n : n + 512]).to_bytes(4, "big") for n in range(0, len(content), 512)]
        path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"".join(sums))

    write("metadata", b'{"id":"4711"}')
    for n in range(4):
        conf = '{"conf":{"spark.sql.shuffle.partitions":"2"}}'
        write(f"offsets/{n}", f'v1\n{conf}\n{{"logOffset":{n}}}'.encode())
        write(f"commits/{n}", b"v1\n{}")
        write(f"sources/0/{n}", b"v1\nfile")
    for level in range(2):
        write(f"state/{level}/_metadata/v2/0", b"operator")
        for partition in range(2):
            place = f"state/{level}/{partition}"
            for version in (1, 3, 4):
                write(f"{place}/{version}.changelog", os.urandom(1300))
            with zipfile.ZipFile(folder / f"{place}/2.zip", "w") as parts:
                parts.writestr("metadata", f'v1\n{{"sstFiles":[{{"dfsSstFileName":"{SST}"}}]}}')
            write(f"{place}/2.zip", (folder / f"{place}/2.zip").read_bytes())
            write(f"{place}/SSTs/{SST}", os.urandom(5000))
        write(f"state/{level}/2/1.changelog", b"of the time when there were three partitions")
    return folder


def test_a_block_that_is_longer_than_its_file(spark_files: Path) -> None:
    """Spark would take as much memory, and end for want of it. Only the checksum beside the file would tell."""
    path, spark = spark_files / "state/1/1/4.changelog", SparkCheckpoint(spark_files)
    blocks = [b"LZ4Block\x25" + len(data).to_bytes(4, "little") + bytes(8) + data for data in (b"x" * 50, b"", b"y")]
    path.with_name(f".{path.name}.crc").unlink()
    path.write_bytes(b"".join(blocks))
    check_blocks(spark, OPERATORS)
    assert list(find_damage(spark)) == []
    for at, mask in ((12, 0x40), (71 + 10, 0x10), (92 + 9, 0x02)):  # in the lengths of the first, second and last one
        data = bytearray(b"".join(blocks))
        data[at] ^= mask
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"has a block of \d+ bytes, and is only") as raised:
            check_blocks(spark, OPERATORS)
        assert raised.value.code == "CKPT014" and "join[4], dedup[3], partition 1" in raised.value.message
        error = explain_damage("java.lang.OutOfMemoryError: Java heap space", spark, OPERATORS)
        assert error is not None and error.message == raised.value.message
    path.write_bytes(b"another codec")
    check_blocks(spark, OPERATORS)


def test_a_sound_checkpoint(spark_files: Path) -> None:
    assert list(find_damage(SparkCheckpoint(spark_files))) == []
    assert (
        explain_damage("java.io.FileNotFoundException: /data/orders", SparkCheckpoint(spark_files), OPERATORS) is None
    )


@pytest.mark.parametrize("damage", [gone, short, empty, flipped])
@pytest.mark.parametrize(
    ("place", "holds"),
    [
        ("metadata", "the identity of the query"),
        ("offsets/2", "what micro-batch 2 reads"),
        ("commits/1", "that micro-batch 1 is done"),
        ("sources/0/3", "which files of source 0 micro-batch 3 reads"),
        ("state/1/_metadata/v2/0", "what Spark knows of the state of join[4], dedup[3]"),
        ("state/0/0/4.changelog", "state of sum[7], partition 0, as of version 4"),
        ("state/1/1/2.zip", "state of join[4], dedup[3], partition 1, as of version 2"),
        (f"state/1/1/SSTs/{SST}", "state of join[4], dedup[3], partition 1"),
    ],
)
def test_the_damaged_file_is_found(spark_files: Path, place: str, holds: str, damage: Damage) -> None:
    damage(spark_files / place)
    error = explain_damage("Checksum error", SparkCheckpoint(spark_files), OPERATORS)
    if damage is gone and place.split("/")[0] in ("offsets", "commits"):
        assert error is None  # Spark keeps the last ones only
        return
    assert error is not None
    assert error.code == "CKPT014"
    if damage is gone and place.endswith(".zip"):
        assert f"{(spark_files / place).parent} has no snapshot" in error.message
        holds = holds.rpartition(",")[0]
    else:
        assert f"{spark_files / place} " in error.message
    assert error.message.endswith(f"it holds {holds}")
    assert error.hint is not None
    assert error.hint.startswith("restore")
    assert explain_damage("some other failure", SparkCheckpoint(spark_files), OPERATORS) is None


def test_versions_may_carry_the_id_of_an_attempt(spark_files: Path) -> None:
    for file in [p for p in (spark_files / "state").glob("*/*/*") if p.suffix in (".zip", ".changelog")]:
        name = f"{file.stem}_{SST[7:-4]}{file.suffix}"
        file.with_name(f".{file.name}.crc").rename(file.with_name(f".{name}.crc"))
        file.rename(file.with_name(name))
    assert list(find_damage(SparkCheckpoint(spark_files))) == []
    snapshot = next((spark_files / "state" / "1" / "1").glob("2_*.zip"))
    short(snapshot)
    error = explain_damage("Checksum error", SparkCheckpoint(spark_files), OPERATORS)
    assert error is not None
    assert f"{snapshot} " in error.message
    assert error.message.endswith("it holds state of join[4], dedup[3], partition 1, as of version 2")


def test_the_last_commit_can_be_done_again(spark_files: Path) -> None:
    empty(spark_files / "commits" / "3")
    error = explain_damage("Incomplete log file", SparkCheckpoint(spark_files), OPERATORS)
    assert error is not None
    assert error.hint == "remove it, and .3.crc beside it: micro-batch 3 is then run once more"


def test_a_state_store_that_fails_for_another_reason_is_named(spark_files: Path) -> None:
    error = explain_damage("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED]", SparkCheckpoint(spark_files), OPERATORS)
    assert error is not None
    assert "state cannot be loaded by Spark; it holds the state of all operators" in error.message


@pytest.mark.parametrize(
    "text",
    ["[UNSUPPORTED_DATATYPE] Unsupported data type", "[STATE_STORE_INCORRECT_NUM_PREFIX_COLS_FOR_PREFIX_SCAN] 2"],
)
def test_a_schema_of_state_that_spark_cannot_read(spark_files: Path, text: str) -> None:
    error = explain_damage(text, SparkCheckpoint(spark_files), OPERATORS)
    assert error is not None and error.code == "CKPT014"
    assert "state has a schema that Spark cannot read; it holds the state of all operators" in error.message


def _run(rows: Path, checkpoint: Path) -> None:
    environment = TableEnvironment.create()
    environment.execute_sql(f"""CREATE TABLE src (k BIGINT) WITH (
        'connector'='filesystem', 'path'='{rows}', 'format'='json', 'source.max-files-per-trigger'='1')""")
    environment.execute_sql("CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='blackhole')")
    environment.execute_sql(f"SET 'execution.checkpointing.dir' = '{checkpoint}'")
    environment.execute_sql("INSERT INTO snk SELECT k, COUNT(*) FROM src GROUP BY k").wait()


def _add(rows: Path, number: int) -> None:
    path = rows / f"{number}.json"
    pl.DataFrame({"k": range(number * 50, number * 50 + 100)}).write_ndjson(path)
    os.utime(path, (1_700_000_000 + number,) * 2)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_fails_over_it_with_a_coded_error(tmp_path: Path) -> None:
    rows, sound = tmp_path / "rows", tmp_path / "sound"
    rows.mkdir()
    _add(rows, 0)
    _add(rows, 1)
    _run(rows, sound)
    _add(rows, 2)
    assert list(find_damage(SparkCheckpoint.of(sound))) == []
    cases: list[tuple[str, Damage]] = [
        ("metadata", short),
        ("commits/1", empty),
        ("state/0/0/2_*.changelog", flipped),
        ("state/0/*/SSTs/*.sst", flipped),
    ]
    for number, (place, damage) in enumerate(cases):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(sound, copy)
        damaged = list((copy / "spark").glob(place))
        assert damaged, place
        for path in damaged:
            damage(path)
        with pytest.raises(CheckpointError) as error:
            _run(rows, copy)
        assert error.value.code == "CKPT014", (place, error.value)
        assert any(str(path.parent) in error.value.message for path in damaged), (place, error.value)
    _run(rows, sound)
