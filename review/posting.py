"""Puts a review on the pull request of GitHub or the merge request of GitLab whose pipeline runs. A comment that an
earlier run has left is replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass

_SECONDS = 30.0
_PAGE = 100
_REFUSALS = (401, 403, 404)


@dataclass(frozen=True)
class Discussion:
    """Where comments of a change are.

    Attributes:
        host: ``GitHub`` or ``GitLab``.
        comments: the URL of the list of comments.
        one: the URL in front of the id of a comment.
        verb: the method that replaces a comment.
        headers: who asks.
    """

    host: str
    comments: str
    one: str
    verb: str
    headers: Mapping[str, str]


def discussion(environment: Mapping[str, str]) -> Discussion | None:
    """Where the comments of the change are whose pipeline runs; None in a pipeline without a change.

    Raises:
        StateplanError: REV004, this is no pipeline, or it has no token.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        return _of_github(environment)
    if environment.get("GITLAB_CI") == "true":
        return _of_gitlab(environment)
    raise StateplanError("REV004.no_pipeline")


def _of_github(environment: Mapping[str, str]) -> Discussion | None:
    try:
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text("utf-8"))
        number = int(event["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    api = environment.get("GITHUB_API_URL", "https://api.github.com")
    issues = f"{api}/repos/{environment['GITHUB_REPOSITORY']}/issues"
    headers = {
        "Authorization": f"Bearer {_token(environment, 'GITHUB_TOKEN')}",
        "Accept": "application/vnd.github+json",
    }
    return Discussion("GitHub", f"{issues}/{number}/comments", f"{issues}/comments", "PATCH", headers)


def _of_gitlab(environment: Mapping[str, str]) -> Discussion | None:
    number = environment.get("CI_MERGE_REQUEST_IID")
    if not number:
        return None
    project = quote(environment["CI_PROJECT_ID"], safe="")
    notes = f"{environment['CI_API_V4_URL']}/projects/{project}/merge_requests/{int(number)}/notes"
    return Discussion("GitLab", notes, notes, "PUT", {"PRIVATE-TOKEN": _token(environment, "GITLAB_TOKEN")})


def _token(environment: Mapping[str, str], name: str) -> str:
    token = environment.get(name, "")
    if not token:
        raise StateplanError("REV004.no_token", name=name)
    return token


def post(target: Discussion, text: str) -> str:
    """Writes a comment in place of the one that begins with the same line, or a new one, and returns its URL.

    Raises:
        StateplanError: REV004, the host refuses, or cannot be reached.
    """
    marker = text.partition("\n")[0]
    with httpx.Client(headers=dict(target.headers), timeout=_SECONDS) as client:
        try:
            for comment in _comments(client, target):
                if not str(comment.get("body") or "").startswith(marker):
                    continue
                answer = client.request(target.verb, f"{target.one}/{int(comment['id'])}", json={"body": text})
                if answer.status_code not in _REFUSALS:  # a comment of somebody else stays
                    return _url(_accepted(target, answer))
            return _url(_accepted(target, client.post(target.comments, json={"body": text})))
        except httpx.HTTPError as cause:
            raise StateplanError("REV004", host=target.host, why=str(cause) or type(cause).__name__) from cause


def _comments(client: httpx.Client, target: Discussion) -> Iterator[dict[str, Any]]:
    page = 1
    while True:
        parameters = {"per_page": _PAGE, "page": page}
        comments = _accepted(target, client.get(target.comments, params=parameters)).json()
        yield from comments
        if len(comments) < _PAGE:
            return
        page += 1


def _accepted(target: Discussion, answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        try:
            why = str(answer.json()["message"])
        except (ValueError, KeyError, TypeError):
            why = answer.reason_phrase
        raise StateplanError("REV004", host=target.host, why=f"{answer.status_code} {why}")
    return answer


def _url(answer: httpx.Response) -> str:
    data = answer.json()
    return str(data.get("html_url") or data.get("id") or "")
