"""A gateway whose answers a test writes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SESSION = "e6934a28-f47b-427e-ba74-ea03050594b2"
OPERATION = "0eed89e1-e5c7-4d5c-8b7c-31f5464b17a8"
TRACE = (
    "<Exception on server side:\norg.apache.flink.table.gateway.api.utils.SqlGatewayException: It failed.\n"
    "\tat org.apache.flink.table.gateway.rest.handler.AbstractSqlGatewayRestHandler.respondToRequest(X.java:84)\n"
    "Caused by: org.apache.flink.table.api.ValidationException: SQL validation failed. From line 1, column 15\n"
    "\tat org.apache.flink.table.planner.calcite.FlinkPlannerImpl.validate(FlinkPlannerImpl.scala:200)\n"
    "\t... 7 more\n"
    "Caused by: org.apache.calcite.sql.validate.SqlValidatorException: Object 'nosuch' not found\n"
    "\tat java.base/jdk.internal.reflect.NativeConstructorAccessorImpl.newInstance0(Native Method)\n"
    "\t... 15 more\n\nEnd of exception on server side>"
)
Answer = tuple[int, Any]


class Gateway:
    """A server with answers by method and path.

    Attributes:
        answers: status and body; a list is answered one after the other, its last one again and again.
        requests: method, path and body.
        headers: of the last request.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {
            "GET /v1/api_versions": (200, {"versions": ["V1", "V2", "V3", "V4"]}),
            "POST /v4/sessions": (200, {"sessionHandle": SESSION}),
            f"DELETE /v4/sessions/{SESSION}": (200, {"status": "CLOSED"}),
            f"POST /v4/sessions/{SESSION}/statements": (200, {"operationHandle": OPERATION}),
        }
        self.requests: list[tuple[str, Any]] = []
        self.headers: dict[str, str] = {}
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                gateway.headers = {key.lower(): text for key, text in self.headers.items()}
                status, answer = gateway.answer(f"{self.command} {self.path}", json.loads(body or b"null"))
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names of http.server

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request: str, body: Any) -> Answer:
        self.requests.append((request, body))
        found = self.answers.get(request, (404, {"errors": [f"Not found: {request.split()[1]}"]}))
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found

    def result(self, token: int, *answers: Answer) -> None:
        """What a fetch of a token gives."""
        self.answers[f"GET {self.path}/result/{token}?rowFormat=PLAIN_TEXT"] = list(answers)

    @property
    def path(self) -> str:
        return f"/v4/sessions/{SESSION}/operations/{OPERATION}"

    def payload(self, token: int, columns: list[Any], rows: list[Any], **more: Any) -> Answer:
        body = {
            "resultType": "PAYLOAD",
            "isQueryResult": True,
            "resultKind": "SUCCESS_WITH_CONTENT",
            "results": {"columns": columns, "rowFormat": "PLAIN_TEXT", "data": rows},
            "nextResultUri": f"{self.path}/result/{token + 1}?rowFormat=PLAIN_TEXT",
        }
        return 200, {**body, **more}
