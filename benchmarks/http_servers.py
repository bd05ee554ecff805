"""What an HTTP server costs the gateway: time of an answer, memory, time to load.

    python -m benchmarks.http_servers [--requests 3000]

Each server answers the request that Flink's SQL client sends at every key stroke: the options of a session, 1.4 kB of
JSON from memory. Once on a connection that is kept, and once with a connection for each, as that client does. Servers
that are not installed are left out. See docs/decisions/0021-gateway.md.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import time

import psutil

from benchmarks.harness import run

ANSWER = json.dumps({"properties": {f"some.option.of.a.session.{i:02d}": "its value" for i in range(32)}})
PATH = "/v4/sessions/e6934a28-f47b-427e-ba74-ea03050594b2"

_LOAD = "import time; began = time.perf_counter()\n"
_SAY = "\nimport sys; print(round(1000 * (time.perf_counter() - began)), flush=True)\n"
SERVERS = {
    "http.server": """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)
    def log_message(self, *_): ...
SAY
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
""",
    "aiohttp": """
from aiohttp import web
async def handle(request):
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")
app = web.Application()
app.router.add_get("/v4/sessions/{handle}", handle)
SAY
web.run_app(app, host="127.0.0.1", port=PORT, print=None, access_log=None)
""",
    "starlette": """
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def handle(request):
    await request.body()
    return Response(ANSWER, media_type="application/json")
app = Starlette(routes=[Route("/v4/sessions/{handle}", handle)])
SAY
uvicorn.run(app, port=PORT, log_level="error", access_log=False, http="h11", ws="none", lifespan="off")
""",
}
"""Programs by the package that they need."""


def ask(port: int, count: int, keep: bool) -> float:
    """Milliseconds of a request, of ``count`` one after the other."""
    close = "" if keep else "Connection: close\r\n"
    sent = f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n{close}\r\n{{}}".encode()
    connection: socket.socket | None = None
    began = time.perf_counter()
    for _ in range(count):
        if connection is None:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(sent)
        got = b""
        while not got.endswith(b"}}"):
            got += connection.recv(65536)
        assert got.startswith(b"HTTP/1.1 200")
        if not keep:
            connection.close()
            connection = None
    if connection is not None:
        connection.close()
    return 1000 * (time.perf_counter() - began) / count


def main(requests: int = 3000) -> None:
    print(f"{'server':12} {'kept ms':>8} {'new ms':>8} {'MiB':>6} {'load ms':>8}")
    for name, program in SERVERS.items():
        if importlib.util.find_spec(name) is None:
            print(f"{name:12} not installed")
            continue
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        code = _LOAD + program.replace("SAY", _SAY).replace("PORT", str(port)).replace("ANSWER", repr(ANSWER.encode()))
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            loaded = process.stdout.readline().strip()
            while True:
                try:
                    ask(port, 200, True)
                    break
                except ConnectionError:
                    time.sleep(0.05)
            kept, new = ask(port, requests, True), ask(port, requests, False)
            memory = psutil.Process(process.pid).memory_info().rss >> 20
            process.kill()
        print(f"{name:12} {kept:8.2f} {new:8.2f} {memory:6} {loaded:>8}")


if __name__ == "__main__":
    run(main, __doc__)
