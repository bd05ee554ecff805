"""Plan files on disk and behind URLs: whole or not at all, and never a traceback."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from stateplan.common.errors import PlanError
from stateplan.common.files import safe_url
from stateplan.plans import storage


def code_of(call, *args, **kwargs) -> str:
    with pytest.raises(PlanError) as caught:
        call(*args, **kwargs)
    assert "Traceback" not in str(caught.value)
    return caught.value.code


def test_a_file_is_written_with_its_folders_and_read_back(tmp_path: Path) -> None:
    for url in (
        str(tmp_path / "a/b/plan.json"),
        f"file://{tmp_path}/c/plan.json",
        f"file:{tmp_path}/d/100%25.json",
    ):
        assert not storage.exists(url)
        storage.write_bytes(url, b"one\r\n")
        assert storage.exists(url)
        assert storage.read_bytes(url) == b"one\r\n"
    assert (tmp_path / "d/100%25.json").exists()
    assert sorted(p.name for p in (tmp_path / "a/b").iterdir()) == ["plan.json"]


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    mask = os.umask(0o027)
    try:
        storage.write_bytes(str(plan), b"1")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(plan.stat().st_mode) == 0o640


def test_an_existing_file_is_refused_as_flink_refuses_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(b"old")
    with pytest.raises(PlanError, match="Cannot overwrite the plan file") as caught:
        storage.write_bytes(str(plan), b"new")
    assert caught.value.code == "PLAN002"
    assert "table.plan.force-recompile" in str(caught.value)
    assert plan.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.json"
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (plan.write_bytes(b"theirs"), sync(fd))[1])
    assert code_of(storage.write_bytes, str(plan), b"ours") == "PLAN002"
    assert plan.read_bytes() == b"theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_overwriting_replaces_the_content_and_keeps_mode_and_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_bytes(b"a much longer old content")
    real.chmod(0o604)
    link.symlink_to(real)
    storage.write_bytes(str(link), b"new", overwrite=True)
    assert real.read_bytes() == b"new"
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o604


@pytest.mark.parametrize("step", ["fsync", "replace", "link", "fdopen"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failing_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, overwrite: bool
) -> None:
    plan = tmp_path / "plan.json"
    if overwrite:
        plan.write_bytes(b"old")

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    if step == "link" and not overwrite:
        storage.write_bytes(str(plan), b"new")
        assert plan.read_bytes() == b"new"
    elif (step == "replace") == overwrite or step not in ("replace", "link"):
        with pytest.raises(PlanError, match="no space left on device") as caught:
            storage.write_bytes(str(plan), b"new", overwrite)
        assert caught.value.code == "PLAN007"
        assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == ([("plan.json", b"old")] if overwrite else [])


def test_links_are_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*args: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    storage.write_bytes(str(tmp_path / "plan.json"), b"1")
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert code_of(storage.read_bytes, str(tmp_path / "no.json")) == "PLAN001"
    assert code_of(storage.read_bytes, str(tmp_path)) == "PLAN003"
    assert code_of(storage.read_bytes, str(tmp_path / "file" / "plan.json")) == "PLAN003"
    assert code_of(storage.read_bytes, "") == "PLAN008"
    assert code_of(storage.read_bytes, "  ") == "PLAN008"
    assert code_of(storage.read_bytes, "a\x00b") == "PLAN008"
    assert code_of(storage.read_bytes, "a\ud800b") == "PLAN008"
    assert code_of(storage.read_bytes, "x" * 300) == "PLAN008"
    assert code_of(storage.read_bytes, "file:") == "PLAN008"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert code_of(storage.read_bytes, str(tmp_path / "loop")) == "PLAN008"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert code_of(storage.write_bytes, str(tmp_path), b"", overwrite=True) == "PLAN003"
    assert code_of(storage.write_bytes, f"{tmp_path}/new/", b"") == "PLAN003"
    assert code_of(storage.write_bytes, str(tmp_path / "file" / "plan.json"), b"") == "PLAN003"
    assert code_of(storage.write_bytes, "/dev/null", b"", overwrite=True) == "PLAN003"
    assert code_of(storage.write_bytes, str(tmp_path / ("x" * 300)), b"") == "PLAN008"


def test_a_host_in_a_file_url_is_explained() -> None:
    with pytest.raises(PlanError, match=r"did you mean 'file:///plans/p\.json'"):
        storage.read_bytes("file://plans/p.json")


def test_missing_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(b"old")
    plan.chmod(0o400)

    def denied(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert code_of(storage.write_bytes, str(plan), b"new", overwrite=True) == "PLAN004"
    monkeypatch.setattr(os, "open", denied)
    assert code_of(storage.write_bytes, str(tmp_path / "new.json"), b"new") == "PLAN004"
    monkeypatch.setattr("builtins.open", denied)
    assert code_of(storage.read_bytes, str(plan)) == "PLAN004"
    assert plan.read_bytes() == b"old"


def test_memory_urls() -> None:
    url = f"memory://{uuid.uuid4().hex}/deep/plan.json"
    assert code_of(storage.read_bytes, url) == "PLAN001"
    storage.write_bytes(url, b"a longer text")
    assert code_of(storage.write_bytes, url, b"x") == "PLAN002"
    storage.write_bytes(url, b"x", overwrite=True)
    assert storage.read_bytes(url) == b"x"
    assert code_of(storage.read_bytes, url.rpartition("/")[0]) == "PLAN003"
    assert code_of(storage.write_bytes, url.rpartition("/")[0], b"") == "PLAN003"


class Renaming(MemoryFileSystem):
    """A filesystem on which files are written in place, like HDFS."""

    protocol = "renaming"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    fail = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.replace("renaming://", "memory://"))

    def mv(self, path1: str, path2: str, **kwargs: object) -> None:
        if self.fail:
            raise RuntimeError("the name node is in safe mode")
        super().mv(path1, path2, **kwargs)


def test_where_files_grow_in_place_a_temporary_one_is_renamed() -> None:
    fsspec.register_implementation("renaming", Renaming, clobber=True)
    storage.write_bytes("renaming://folder/plan.json", b"one")
    storage.write_bytes("renaming://folder/plan.json", b"two", overwrite=True)
    assert storage.read_bytes("renaming://folder/plan.json") == b"two"
    Renaming.fail = True
    try:
        with pytest.raises(PlanError, match="safe mode") as caught:
            storage.write_bytes("renaming://folder/plan.json", b"three", overwrite=True)
    finally:
        Renaming.fail = False
    assert caught.value.code == "PLAN007"
    assert list(Renaming.store) == ["/folder/plan.json"]
    assert storage.read_bytes("renaming://folder/plan.json") == b"two"


@pytest.mark.parametrize(
    ("url", "code", "part"),
    [
        ("hdsf://nn/plan.json", "PLAN006", "did you mean 'hdfs'"),
        ("nosuchscheme://x/plan.json", "PLAN006", "unknown file scheme 'nosuchscheme'"),
        ("gdrive://folder/plan.json", "PLAN005", "install the package gdrivefs"),
    ],
)
def test_schemes_without_driver(url: str, code: str, part: str) -> None:
    for call in (storage.read_bytes, storage.exists, lambda u: storage.write_bytes(u, b"")):
        with pytest.raises(PlanError) as caught:
            call(url)
        assert caught.value.code == code
        assert part in str(caught.value)


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(PlanError) as caught:
        storage.read_bytes("nosuchscheme://joe:secret@host/plan.json")
    assert "secret" not in str(caught.value)
    assert safe_url("sftp://joe:secret@host/p") == "sftp://***@host/p"
