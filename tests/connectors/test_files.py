"""Paths, pieces of lines, compressed and damaged files, metadata columns."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from connector_tables import fields, make_decoder, read_all, table
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError, OptionError
from stateplan.common.files import CHUNK_BYTES, line_chunks, local_path
from stateplan.connectors.formats import base
from stateplan.connectors.listing import require_path


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/a/b", "/a/b"), ("a/b", "a/b"), ("file:/a/b", "/a/b"), ("file:///a/b c", "/a/b c"), ("s3://x/y", None),
        ("memory://x", None),
    ],
)  # fmt: skip
def test_local_paths(path: str, local: str | None) -> None:
    assert local_path(path) == local


@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=12),
    st.integers(1, 20),
    st.booleans(),
)
def test_pieces_are_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], size: int, ends: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    path.write_bytes(data)
    joined = b""
    for piece in line_chunks(str(path), size):
        assert piece.data.endswith(b"\n")
        assert len(piece) == piece.data.count(b"\n")
        joined += piece.data
    assert joined == data + (b"" if data.endswith(b"\n") or not data else b"\n")


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("url", [False, True])
def test_compressed_files(tmp_path: Path, ending: str, url: bool) -> None:
    data = b"".join(b'{"a":%d}\n' % i for i in range(1000))
    packed = {
        "": lambda: data, ".gz": lambda: gzip.compress(data[:1999]) + gzip.compress(data[1999:]),
        ".bz2": lambda: bz2.compress(data),
        ".zst": lambda: pa.compress(data, codec="zstd", asbytes=True),
    }[ending]()  # fmt: skip
    path = tmp_path / f"a.json{ending}"
    path.write_bytes(packed)
    name = f"file://{path}" if url else str(path)
    decoder = make_decoder(table("json"), fields("a INT"), [0])
    assert pl.concat(list(decoder.read(name)))["c0"].to_list() == list(range(1000))


@pytest.mark.parametrize("fmt", ["json", "csv", "debezium-json"])
@pytest.mark.parametrize("data", [b"", b"\n\n"])
def test_empty_files(tmp_path: Path, fmt: str, data: bytes) -> None:
    path = tmp_path / "empty"
    path.write_bytes(data if fmt != "csv" else b"")
    assert list(make_decoder(table(fmt), fields("a INT"), [0]).read(str(path))) == []


def test_remote_files() -> None:
    import fsspec

    fs = fsspec.filesystem("memory")
    fs.pipe_file("/connectors/a.json.gz", gzip.compress(b'{"a":1}\n'))
    decoder = make_decoder(table("json"), fields("a INT"), [0], ["file.name", "file.size"])
    (df,) = decoder.read("memory://connectors/a.json.gz")
    assert df.rows() == [(1, "a.json.gz", len(gzip.compress(b'{"a":1}\n')))]


def test_metadata(tmp_path: Path) -> None:
    path = tmp_path / "a b.json"
    path.write_text('{"a":1}\n{"a":2}\n')
    keys = ["file.modification-time", "file.path", "file.name", "file.size"]
    for name in (str(path), f"file://{path}"):
        decoder = make_decoder(table("json"), fields("a INT, b STRING"), [0], keys)
        (df,) = decoder.read(name)
        assert df.columns == ["c0", "c1", "c2", "c3", "c4"]
        assert df.schema["c1"] == pl.Datetime("ms", "UTC")
        assert df["c1"].to_physical()[0] == int(path.stat().st_mtime * 1000)
        assert df.drop("c0", "c1").rows() == [(str(path), "a b.json", 16)] * 2
    (only,) = make_decoder(table("json"), fields("a INT"), [], ["file.name"]).read(str(path))
    assert only.rows() == [("a b.json",)] * 2
    path.write_text('{"before":{"a":1},"after":{"a":2},"op":"u"}\n')
    (changes,) = make_decoder(table("debezium-json"), fields("a INT"), [0], ["file.size"]).read(str(path))
    assert changes.columns == ["c0", "c1", "kind"] and changes.rows() == [(1, 44, 1), (2, 44, 2)]


@pytest.mark.parametrize("fmt", ["json", "csv", "raw", "debezium-json"])
def test_metadata_are_asked_for_once_per_file(fmt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each piece that is read of it."""
    asked: list[dict[str, Any]] = []
    told = base.modified
    monkeypatch.setattr(base, "modified", lambda info: asked.append(info) or told(info))
    path = tmp_path / "large"
    line = (
        f'{{"after":{{"a":"1"}},"op":"c","b":"{"x" * (CHUNK_BYTES // 2)}"}}\n'
        if fmt != "csv"
        else "x" * CHUNK_BYTES + "\n"
    )
    path.write_text(line * 5)
    decoder = make_decoder(table(fmt), fields("a STRING"), [0], ["file.size"])
    frames = list(decoder.read(str(path)))
    assert len(frames) > 1
    assert {size for frame in frames for size in frame["c1"]} == {5 * len(line)}
    assert len(asked) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    for fmt, message in (
        ("json", f"[DATA102] cannot open the file: No such file or directory\n  --> {path}"),
        ("csv", f"[DATA102] cannot open the file: No such file or directory\n  --> {path}"),
    ):
        with pytest.raises(DataError) as error:
            read_all(table(fmt), fields("a INT"), path)
        assert str(error.value) == message
    with pytest.raises(DataError) as error:
        read_all(table("parquet"), fields("a INT"), path)
    assert error.value.code == "DATA102"


def test_damaged_files(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"a":1}\n' * 1000)
    path = tmp_path / "a.json.gz"
    for data in (packed[:40], b"plain text"):
        path.write_bytes(data)
        with pytest.raises(DataError) as error:
            read_all(table("json"), fields("a INT"), path)
        assert error.value.code in ("DATA103", "DATA111")
    path.write_bytes(b"plain text")
    with pytest.raises(DataError) as error:
        read_all(table("json"), fields("a INT"), path)
    assert error.value.hint == "the file is damaged or not compressed as its ending says"
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(DataError) as error:
        read_all(table("parquet"), fields("a INT"), path)
    assert error.value.code == "DATA131" and error.value.expected == "a Parquet file"


def test_unknown_protocol() -> None:
    with pytest.raises(DataError) as error:
        list(make_decoder(table("json"), fields("a INT"), [0]).read("nope://x/y.json"))
    assert str(error.value).splitlines()[0].startswith("[DATA101] no filesystem for 'nope://x/y.json'")


def test_parquet_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"a": [1, 2], "t": ["x", "y"]}).write_parquet(path)
    df = read_all(table("parquet"), fields("b STRING, a BIGINT, t STRING"), path, [1, 0])
    assert df.rows() == [(1, None), (2, None)] and df.schema == {"c0": pl.Int64, "c1": pl.String}
    assert read_all(table("parquet"), fields("a BIGINT"), path, []).columns == ["kind"]
    with pytest.raises(DataError) as error:
        read_all(table("parquet"), fields("a INT"), path)
    assert str(error.value) == (
        f"[DATA132] the column 'a' is int64 in the file and INT in the table\n  --> {path}\n"
        "  expected: a column whose values are all values of INT"
    )


def test_a_path_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders").mkdir()
    monkeypatch.chdir(tmp_path)
    for path, hint in (
        ("ordes", "did you mean 'orders'?"),
        (f"{tmp_path}/ordres/2026", "did you mean 'orders'?"),
        ("data/orders/1.json", f"there is no 'data' in {tmp_path}"),
    ):
        with pytest.raises(OptionError) as error:
            require_path(path, "t")
        assert (error.value.code, error.value.hint) == ("OPT040", hint)


def test_json_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    skips = "'json.ignore-parse-errors' = 'true' skips such input; the line is: "
    for line, options, message in (
        ('{"a":"bad"}', {}, "[DATA112] \"bad\" is not a value of the column 'a', which is INT\n  --> {}, line 2\n"
         f'  expected: a whole number from -2147483648 to 2147483647\n  hint: {skips}{{"a":"bad"}}'),
        ("{'a':1}", {}, "[DATA111] the line is not a JSON object: expecting property name enclosed in double quotes\n"
         f"  --> {{}}, line 2, column 2\n  expected: one JSON object per line\n  hint: {skips}{{'a':1}}"),
        ("5", {}, "[DATA111] the line is not a JSON object: not a JSON object\n  --> {}, line 2, column 1\n"
         f"  expected: one JSON object per line\n  hint: {skips}5"),
        ('{"b":1}', {"json.fail-on-missing-field": "true"}, "[DATA113] the field 'a' is missing\n  --> {}, line 2\n"
         "  expected: every column of the table, because 'json.fail-on-missing-field' is set\n"
         '  hint: the line is: {"b":1}'),
        ("5", {"json.fail-on-missing-field": "true"},
         "[DATA111] the line is not a JSON object: not a JSON object\n  --> {}, line 2, column 1\n"
         "  expected: one JSON object per line\n  hint: 'json.ignore-parse-errors' = 'true' without "
         "'json.fail-on-missing-field' skips such input; the line is: 5"),
    ):  # fmt: skip
        path.write_text(f'{{"a":1}}\n{line}\n')
        with pytest.raises(DataError) as error:
            read_all(table("json") | options, fields("a INT"), path)
        assert str(error.value) == message.replace("{}", str(path))
    path.write_bytes(b'{"a":1}\n{"a":\xff}\n')
    with pytest.raises(DataError) as error:
        read_all(table("json"), fields("a INT"), path)
    assert str(error.value).startswith("[DATA111] the line is not a JSON object: not UTF-8 (byte 0xff)\n")
    assert error.value.hint == f"{skips}x'7b2261223aff7d' (7 bytes)"
    path.write_bytes(bytes(range(128, 256)))
    with pytest.raises(DataError) as error:
        read_all(table("json"), fields("a INT"), path)
    assert error.value.hint == f"{skips}x'808182838485868788898a8b8c8d8e8f...' (128 bytes)"
    path.write_text('{"a":1}\n{"a":"bad"}\nx\n{"a":3}\n')
    df = read_all(table("json") | {"json.ignore-parse-errors": "true"}, fields("a INT"), path)
    assert df["c0"].to_list() == [1, None, 3]


def test_event_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"after":{"a":1},"op":"c"}\n{"before":null,"after":{"a":2},"op":"u"}\n')
    with pytest.raises(DataError) as error:
        read_all(table("debezium-json"), fields("a INT"), path)
    assert str(error.value) == (
        '[DATA114] not a change event: the "before" field of the UPDATE event is null\n'
        f"  --> {path}, line 2\n"
        "  expected: the whole row before the change (in PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL makes "
        "Debezium send it)\n"
        "  hint: 'debezium-json.ignore-parse-errors' = 'true' skips such input; the line is: "
        '{"before":null,"after":{"a":2},"op":"u"}'
    )
