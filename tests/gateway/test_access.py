"""Who may use a gateway: tokens, TLS with certificates on both sides, and no page of another origin."""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
import ssl
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scripts.browser import find_browser
from stateplan.common.errors import GatewayError, RunError
from stateplan.gateway.client.http import connect
from stateplan.gateway.rest.guard import Access
from stateplan.gateway.rest.server import read_token, tls_options
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import GatewayHere, gateway_here

TOKEN = "s3cret-token-of-32-characters-xy"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayHere]:
    with gateway_here(SqlGatewayService(folder=tmp_path / "state")) as found:
        yield found
        assert found.complaints() == []


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GatewayHere]:
    with gateway_here(SqlGatewayService(folder=tmp_path / "state"), Access(token=TOKEN)) as found:
        yield found
        assert found.complaints() == []


# tokens

REQUESTS = (
    *(("GET", "/v4/info"), ("GET", "/api_versions"), ("POST", "/v4/sessions"), ("GET", "/v4/plans")),
    *(("PUT", "/v4/plans/p"), ("DELETE", "/v4/plans/p"), ("GET", "/page/jobs"), ("POST", "/page/jobs/x/stop")),
    *(("GET", "/nothing"), ("POST", "/"), ("HEAD", "/"), ("GET", "//"), ("GET", "/v4/")),
    *(("GET", "/page/files/../jobs"), ("GET", "/page/files"), ("OPTIONS", "/v4/sessions"), ("GET", "/page%2Ffiles")),
    *(("GET", "/v4/page/files/page.css"),),
)


@pytest.mark.parametrize(
    "given",
    [
        (),
        (f"Bearer {TOKEN}x",),
        (f"Bearer {TOKEN[:-1]}",),
        ("Bearer ",),
        ("Bearer",),
        ("",),
        (TOKEN,),
        (f"Basic {TOKEN}",),
        (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
        ("Bearer x", f"Bearer {TOKEN}"),
        (f"Bearer {TOKEN}, Bearer {TOKEN}",),
        (f"Bearer {TOKEN.upper()}",),
        (f"Bearer {TOKEN} x",),
        ("Bearer " + "é" * 30,),
    ],
)
def test_without_the_token_nothing_is_done_or_told(guarded: GatewayHere, given: tuple[str, ...]) -> None:
    for method, path in REQUESTS:
        if path.startswith("/page/files/") or (method, path) == ("GET", "//"):
            continue  # see the test of the page
        lines = "".join(f"Authorization: {value}\r\n" for value in given)
        answer = guarded.ask(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode("latin-1"))
        assert answer.status == 401, (method, path, answer)
        assert answer.header("www-authenticate") == ["Bearer"]
        if method != "HEAD":
            assert answer.json() == {
                "errors": [
                    "[GW024] the request has no valid token\n  expected: Authorization: Bearer TOKEN",
                ]
            }
    assert guarded.service.sessions() == [] and guarded.service.named_plans().names() == []


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Bearer  {TOKEN}  "])
def test_with_the_token(guarded: GatewayHere, given: str) -> None:
    assert guarded.request("POST", "/v4/sessions", {"Authorization": given}).status == 200


def test_the_page_itself_tells_nothing(guarded: GatewayHere) -> None:
    """It asks its user for the token; what it shows, it fetches with it."""
    assert guarded.request("GET", "/").status == 200
    assert guarded.request("GET", "/page/files/page.css").status == 200
    for path in ("/page/files/../jobs", "/page/files/..%2fjobs", "/page/files/%2e%2e/jobs", "//", "/?x=/page/files/"):
        answer = guarded.request("GET", path)
        assert answer.status in (200, 401, 404) and b'"jobs"' not in answer.body


def test_a_token_is_compared_in_the_same_time_whatever_it_is(
    guarded: GatewayHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never byte by byte from the left, and never by its length: digests are compared, by a function that takes as
    long for any of them."""
    seen, genuine = [], hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        seen.append((len(one), len(other)))
        return genuine(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for token, status in (("", 401), ("s", 401), (TOKEN[:-1], 401), (TOKEN + "x" * 1000, 401), (TOKEN, 200)):
        assert guarded.request("GET", "/v4/info", {"Authorization": f"Bearer {token}"}).status == status
    assert seen == [(32, 32)] * 5


def test_the_log_has_no_token(guarded: GatewayHere, tmp_path: Path) -> None:
    session = connect(str(guarded.http.base_url), token=TOKEN)
    session.submit(f"SET 'my.password' = '{TOKEN}'")
    session.close()
    assert TOKEN not in (tmp_path / "state" / "audit.log").read_text()
    assert TOKEN not in str(guarded.records)


def test_token_files(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"  {TOKEN}\n")
    path.chmod(0o600)
    assert read_token(str(path)) == TOKEN
    path.chmod(0o640)
    with pytest.raises(GatewayError, match="can be read by other users"):
        read_token(str(path))
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(GatewayError, match="too short"):
        read_token(str(path))
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(GatewayError) as raised:
            read_token(str(missing))
        assert raised.value.code == "GW017"


@pytest.mark.parametrize(
    ("address", "given", "code"),
    [
        ("127.0.0.1", {}, None),
        ("::1", {}, None),
        ("127.5.5.5", {}, None),
        ("0.0.0.0", {}, "GW015"),
        ("::", {}, "GW015"),
        ("10.0.0.1", {"is_confined": True}, "GW015"),
        ("10.0.0.1", {"token": TOKEN}, "GW015"),
        ("10.0.0.1", {"certificates": True}, "GW015"),
        ("example.com", {"certificates": True}, "GW015"),
        ("10.0.0.1", {"token": TOKEN, "is_confined": True}, None),
        ("10.0.0.1", {"certificates": True, "is_confined": True}, None),
    ],
)
def test_what_others_reach_is_not_open(address: str, given: dict[str, Any], code: str | None) -> None:
    try:
        Access.of(address, **given)
    except GatewayError as error:
        assert error.code == code
    else:
        assert code is None


# other origins

ACTS = (
    *(("POST", "/v4/sessions", b"{}"),),
    *(("POST", "/v4/sessions/{}/statements", b'{"statement": "CREATE DATABASE stolen"}'),),
    *(("POST", "/v4/sessions/{}/configure-session", b'{"statement": "CREATE DATABASE stolen"}'),),
    *(("DELETE", "/v4/sessions/{}", b""), ("PUT", "/v4/plans/stolen", b"{}"), ("GET", "/v4/sessions/{}", b"")),
    *(("POST", "/page/jobs/x/stop", b"{}"), ("GET", "/page/jobs", b"")),
)
SIMPLE = (
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
    *("text/plain;charset=UTF-8",),
)
"""What a page may send to any server without asking it first."""


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:{port}.evil.example"},
        {"Origin": "http://localhost:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "anything"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Host": "localhost.evil.example"},
        {"Host": "192.168.0.1:{port}"},
    ],
    ids=lambda headers: " ".join(headers.values()),
)
def test_a_page_of_another_origin_cannot_act(gateway: GatewayHere, headers: dict[str, str]) -> None:
    """Not with a form, not with a script, and not under a name of its own for the gateway's address."""
    session = gateway.session()
    given = {name: value.format(port=gateway.port) for name, value in headers.items()}
    for method, path, body in ACTS:
        for kind in SIMPLE if method == "POST" else ("application/json",):
            answer = gateway.request(method, path.format(session), {**given, "Content-Type": kind}, body)
            assert answer.status in (403, 421), (method, path, answer)
            assert "[GW023]" in answer.json()["errors"][0]
            assert answer.header("access-control-allow-origin") == []
    assert [opened.handle for opened in gateway.service.sessions()] == [session]
    assert "stolen" not in gateway.run(session, "SHOW DATABASES").text
    assert gateway.service.named_plans().names() == []


def test_nobody_is_told_that_others_may_ask(gateway: GatewayHere) -> None:
    """A browser asks before it sends JSON from elsewhere."""
    asks = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = gateway.request("OPTIONS", "/v4/sessions", asks)
    assert answer.status == 403 and not any(name.startswith("access-control") for name, _ in answer.headers)


def test_the_own_page_and_links_to_it(gateway: GatewayHere) -> None:
    own = {"Origin": f"http://127.0.0.1:{gateway.port}", "Sec-Fetch-Site": "same-origin"}
    assert gateway.request("POST", "/v4/sessions", own, b"{}").status == 200
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert gateway.request("GET", "/", visit).status == 200
    assert gateway.request("POST", "/v4/sessions", visit, b"{}").status == 403
    for host in ("localhost", f"LOCALHOST:{gateway.port}", "[::1]:80", "127.0.0.1"):
        assert gateway.request("GET", "/v4/info", {"Host": host}).status == 200


def test_a_name_that_is_allowed(tmp_path: Path) -> None:
    access = Access.of("127.0.0.1", names=["Gateway.Example"])
    with gateway_here(SqlGatewayService(), access) as found:
        assert found.request("GET", "/v4/info", {"Host": "gateway.example:8083"}).status == 200
        assert found.request("GET", "/v4/info", {"Host": "other.example"}).status == 421
        assert found.request("GET", "/v4/info", {"Host": "10.0.0.1"}).status == 421
    remote = Access.of("0.0.0.0", TOKEN, is_confined=True)
    with gateway_here(SqlGatewayService(), remote) as found:
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert found.request("GET", "/v4/info", {"Host": "10.0.0.1:80", **token}).status == 200
        assert found.request("GET", "/v4/info", {"Host": "evil.example", **token}).status == 421


EVIL = """<!doctype html><title>evil</title><iframe src="{url}/" id="frame"></iframe>
<form id="form" method="post" action="{url}/v4/sessions" enctype="text/plain" target="hidden">
<input name='{{"sessionName": "stolen", "x": "' value='"}}'></form><iframe name="hidden"></iframe>
<img src="{url}/v4/sessions/{session}"><script src="{url}/v4/info"></script><script>
const said = [];
const ask = (path, options) => fetch("{url}" + path, options)
  .then(async answer => said.push(answer.type === "opaque" ? "sent" : await answer.text()))
  .catch(() => said.push("refused"));
(async () => {{
  for (const mode of ["cors", "no-cors", "same-origin"]) {{
    for (const type of ["text/plain", "application/json"]) {{
      await ask("/v4/sessions", {{method: "POST", mode, body: "{{}}", headers: {{"content-type": type}}}});
    }}
    await ask("/page/jobs", {{mode}});
  }}
  document.getElementById("form").submit();
  document.title = JSON.stringify(said);
}})();
</script>"""


def test_a_page_of_another_origin_in_a_browser(gateway: GatewayHere) -> None:
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium: 'make browser' says how to get one")
    from playwright.sync_api import sync_playwright

    session = gateway.session()
    page = EVIL.format(url=f"http://127.0.0.1:{gateway.port}", session=session).encode()

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None: ...

    evil = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    Thread(target=evil.serve_forever, daemon=True).start()
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.program, env=found.environment)
        for host in ("127.0.0.1", "localhost"):
            opened = browser.new_page()
            opened.on("request", lambda request: asked.append(request.url))
            opened.goto(f"http://{host}:{evil.server_port}/")
            opened.wait_for_function("document.title !== 'evil'", timeout=60_000)
            opened.wait_for_timeout(300)
            said = json.loads(opened.title())
            assert len(said) == 9 and set(said) <= {"refused", "sent"}, "a page of another origin reads an answer"
            assert opened.frame_locator("#frame").locator("h1").count() == 0, "a frame shows the gateway's page"
            opened.close()
        browser.close()
    evil.shutdown()
    evil.server_close()
    assert [s.handle for s in gateway.service.sessions()] == [session]
    assert sum(f":{gateway.port}/" in url for url in asked) > 10


# TLS


@dataclass
class Authority:
    """A certificate authority that makes certificates, each in a file with its key."""

    folder: Path
    name: str

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(self.name, self._key, ca=True)
        self.path = self.folder / f"{self.name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, ca: bool = False) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = subject if ca else self._certificate.subject
        now = datetime.now(UTC)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        usage = [True, False, False, False, False, ca, ca, False, False]
        made = made.add_extension(x509.KeyUsage(*usage), critical=True)
        signer = key if ca else self._key
        known = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        made = made.add_extension(known, critical=False)
        by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        made = made.add_extension(by, critical=False)
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(signer, hashes.SHA256())

    def certificate(self, name: str) -> Path:
        """A file with a new certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        path = self.folder / f"{self.name}-{name}.pem"
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        path.write_bytes(
            self._sign(name, key).public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(serialization.Encoding.PEM, *form)
        )
        return path


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    folder = tmp_path_factory.mktemp("certificates")
    return Authority(folder, "ours"), Authority(folder, "theirs")


@pytest.fixture(params=[False, True], ids=["TLS", "mutual TLS"])
def mutual(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def secure(authorities: tuple[Authority, Authority], mutual: bool, tmp_path: Path) -> Iterator[GatewayHere]:
    ours = authorities[0]
    own = str(ours.certificate("gateway"))
    options = tls_options(own, own, str(ours.path) if mutual else None)
    with gateway_here(SqlGatewayService(folder=tmp_path / "state"), tls=options) as found:
        yield found
        assert found.complaints() == []


def test_certificates(
    secure: GatewayHere, authorities: tuple[Authority, Authority], mutual: bool, tmp_path: Path
) -> None:
    ours, theirs = authorities
    url = f"https://localhost:{secure.port}"
    client, stranger = str(ours.certificate("ada")), str(theirs.certificate("eve"))
    for trusted, shown in ((ours, None), (ours, stranger), (theirs, client), (None, client)):
        refused = trusted is not ours or mutual
        if not refused:
            connect(url, ca_file=str(ours.path), certificate=shown).close()
            continue
        with pytest.raises(RunError, match="RUN161"):
            connect(url, ca_file=None if trusted is None else str(trusted.path), certificate=shown)
    session = connect(url, ca_file=str(ours.path), certificate=client)
    session.submit("SHOW TABLES")
    session.close()
    assert ('"who": "ada 127.0.0.1"' in (tmp_path / "state" / "audit.log").read_text()) == mutual


def test_no_tls_and_old_tls(secure: GatewayHere, authorities: tuple[Authority, Authority]) -> None:
    assert secure.ask(b"GET /v4/info HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 0
    assert secure.ask(b"\x16\x03\x01" + b"\x00" * 200).status == 0
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(authorities[0].path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
    with secure.connect() as plain, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(plain, server_hostname="localhost")


def test_origins_with_tls(secure: GatewayHere, authorities: tuple[Authority, Authority]) -> None:
    ours = authorities[0]
    context = ssl.create_default_context(cafile=str(ours.path))
    context.load_cert_chain(ours.certificate("ada"))
    with httpx.Client(base_url=f"https://localhost:{secure.port}", verify=context, trust_env=False) as http:
        for scheme, status in (("https", 200), ("http", 403)):
            origin = {"Origin": f"{scheme}://localhost:{secure.port}"}
            assert http.post("/v4/sessions", headers=origin).status_code == status


def test_options_for_tls(authorities: tuple[Authority, Authority], tmp_path: Path) -> None:
    own = str(authorities[0].certificate("gateway"))
    (tmp_path / "text").write_text("no certificate")
    for given in (
        (own, None, None),
        (None, own, None),
        (None, None, own),
        (own, str(authorities[0].path), None),
        (str(tmp_path / "text"), own, None),
        (str(tmp_path / "none"), own, None),
        (own, own, str(tmp_path / "text")),
        (own, str(authorities[1].certificate("other")), None),
    ):
        with pytest.raises(GatewayError) as raised:
            tls_options(*given)
        assert raised.value.code == "GW017"
    assert tls_options(None, None, None) == {}


def test_a_connection_that_never_finishes_its_handshake(secure: GatewayHere) -> None:
    with secure.connections(50) as silent:
        silent[0].sendall(b"\x16\x03\x01")
        with socket.create_connection(("127.0.0.1", secure.port), timeout=5):
            pass
    assert secure.complaints() == []
