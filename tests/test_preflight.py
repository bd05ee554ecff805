"""``make setup`` says in one line what is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "preflight.sh"


@pytest.mark.parametrize("python", ["/bin/false", "/bin/ls", "no-such-python"])
def test_a_program_that_is_not_python(python: str) -> None:
    variables = {"PATH": "/usr/bin:/bin", "PYTHON": python}
    done = subprocess.run(["sh", str(SCRIPT)], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"stateplan needs Python 3.11 or newer, found none in {python}: install it ")
