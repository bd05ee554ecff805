"""Runs the steps of an action of GitHub and of a job of GitLab in bash, as their runners do, and serves the part of
their APIs that has comments."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@dataclass
class Comments:
    """Comments of a change on a host.

    Attributes:
        texts: by id.
        requests: method and path of each request that was not a look.
        token: the only one that is accepted.
        foreign: ids of comments that the token cannot change.
    """

    token: str
    texts: dict[int, str] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    foreign: set[int] = field(default_factory=set)
    url: str = ""


@contextmanager
def comments_api(token: str) -> Iterator[Comments]:
    """A host at an address of this machine."""
    comments = Comments(token)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

        def _answer(self, status: int, data: Any) -> None:
            body = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            if token not in (self.headers.get("PRIVATE-TOKEN"), self.headers.get("Authorization", "")[7:]):
                self._answer(403, {"message": "Resource not accessible by integration"})
                return
            if self.command == "GET":
                query = parse_qs(parts.query)
                size, page = int(query["per_page"][0]), int(query["page"][0])
                entries = [{"id": number, "body": text} for number, text in comments.texts.items()]
                self._answer(200, entries[size * (page - 1) : size * page])
                return
            comments.requests.append((self.command, parts.path))
            if self.command == "POST":
                number = max(comments.texts, default=0) + 1
                comments.texts[number] = data["body"]
                self._answer(201, {"id": number})
                return
            number = int(parts.path.rpartition("/")[2])
            if number in comments.foreign:
                self._answer(403, {"message": "Forbidden"})
                return
            comments.texts[number] = data["body"]
            self._answer(200, {"id": number})

        do_GET = do_POST = do_PATCH = do_PUT = _serve  # noqa: N815 - the names that http.server calls

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    comments.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield comments
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Run:
    """What became of a job.

    Attributes:
        code: its exit code.
        log: what it printed.
        outputs: by step and name.
        summary: the summary of the job.
        uses: the actions that it would have called, with their inputs.
    """

    code: int = 0
    log: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    uses: list[tuple[str, dict[str, str]]] = field(default_factory=list)


def run_action(
    action: Path, inputs: Mapping[str, str], environment: Mapping[str, str], folder: Path, scratch: Path
) -> Run:
    """Runs the steps of a composite action in a folder.

    Args:
        action: the folder with ``action.yml``.
        inputs: other than the defaults.
        environment: variables of the job.
        folder: where it runs.
        scratch: for the files of the runner.
    """
    data = yaml.safe_load((action / "action.yml").read_text())
    unknown = set(inputs) - set(data["inputs"])
    assert not unknown, unknown
    values = {f"inputs.{name}": str(spec.get("default", "")) for name, spec in data["inputs"].items()}
    values |= {f"inputs.{name}": text for name, text in inputs.items()}
    values |= {"github.action_path": str(action), "github.token": environment.get("GITHUB_TOKEN", "")}
    values = {name: _filled(text, values) for name, text in values.items()}
    run = Run()
    for number, step in enumerate(data["runs"]["steps"]):
        condition = str(step.get("if", ""))
        if run.code and "always()" not in condition:
            continue
        if condition and not _holds(condition, values):
            continue
        if "uses" in step:
            run.uses.append((step["uses"], {k: _filled(v, values) for k, v in step["with"].items()}))
            continue
        assert "${{" not in step["run"], "an input inside the script would be code"
        own = {name: _filled(text, values) for name, text in step.get("env", {}).items()}
        files = {name: scratch / f"{number}-{name}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.touch()
        own |= {name: str(path) for name, path in files.items()} | {"RUNNER_TEMP": str(scratch)}
        script = scratch / f"{number}.sh"
        script.write_text(step["run"])
        _run(["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], {**environment, **own}, folder, run)
        run.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, text = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}"] = text
    run.outputs = {name: _filled(spec["value"], values) for name, spec in data["outputs"].items()}
    return run


def run_job(template: Path, job: str, environment: Mapping[str, str], folder: Path, skip: int = 0) -> Run:
    """Runs the lines of a job of GitLab, without the first ``skip`` ones, in a folder."""
    data = yaml.safe_load(template.read_text())[job]
    lines = [*data.get("before_script", ()), *data["script"]][skip:]
    run = Run()
    variables = {name: str(text) for name, text in data["variables"].items()}
    _run(["bash", "-eo", "pipefail", "-c", "\n".join(lines)], {**variables, **environment}, folder, run)
    return run


def _run(words: list[str], environment: Mapping[str, str], folder: Path, run: Run) -> None:
    base = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ}
    process = subprocess.run(
        words, cwd=folder, env={**base, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    run.code, run.log = process.returncode, run.log + process.stdout


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda match: values.get(match[1], ""), text)


def _holds(condition: str, values: Mapping[str, str]) -> bool:
    """Whether comparisons of values with texts, joined by ``&&``, hold."""
    inner = _EXPRESSION.fullmatch(condition.strip())
    assert inner is not None
    for term in inner[1].split("&&"):
        match = re.fullmatch(r"\s*([\w.-]+)\s*(==|!=)\s*'(.*)'\s*", term)
        if match is None:
            assert term.strip() == "always()", term
        elif (values.get(match[1], "") == match[3]) != (match[2] == "=="):
            return False
    return True
