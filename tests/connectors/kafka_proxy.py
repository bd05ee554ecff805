"""A proxy in front of the Kafka broker of the tests, which has no TLS and takes any login. The proxy speaks TLS, asks
for a login by SASL, and forwards everything else.

Clients see one broker, the proxy: answers name its port instead of the broker's. Certificates are made on the fly.

Source: Kafka's protocol (SaslHandshake, SaslAuthenticate), KIP-152, RFC 4616 (PLAIN), RFC 5802 (SCRAM).
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import hmac
import ipaddress
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"

METADATA, SASL_HANDSHAKE = 3, 17
"""The requests by which clients ask for topics, and say how they log in."""

_API_VERSIONS, _SASL_AUTHENTICATE = 18, 36
_UNSUPPORTED_MECHANISM, _WRONG_STATE, _REFUSED = 33, 34, 58
_LARGEST = 100 << 20
"""Bytes of a request, at most, as in Kafka; the first bytes of TLS would announce more."""

_PIECE = 1 << 18


# ---- certificates ----------------------------------------------------------------------------------------------


@dataclass
class Certificate:
    """A certificate, its key, and the authority that vouches for it.

    Attributes:
        name: whom it is for.
        days: until it expires; negative when it has expired.
        issuer: None for one that vouches for itself, and for others.
    """

    name: str
    days: int = 2
    issuer: Certificate | None = None

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        now, subject = dt.datetime.now(dt.UTC), _named(self.name)
        issuer = self.issuer or self
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_named(issuer.name))
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=9))
            .not_valid_after(now + dt.timedelta(days=self.days))
            .add_extension(x509.BasicConstraints(ca=self.issuer is None, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_alternative(self.name)]), critical=False)
        )
        self._made = builder.sign(issuer._key, hashes.SHA256())

    def issue(self, name: str, days: int = 2) -> Certificate:
        """One that this one vouches for."""
        return Certificate(name, days, self)

    def pem(self) -> str:
        """The certificate."""
        return self._made.public_bytes(Encoding.PEM).decode()

    def key_pem(self) -> str:
        """Its key."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def write(self, path: Path) -> Path:
        """A file with the key and the certificate."""
        path.write_text(self.key_pem() + self.pem(), encoding="ascii")
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """A key store with both."""
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(None, self._key, self._made, None, encryption))
        return path

    def context(self, folder: Path, clients: Certificate | None = None) -> ssl.SSLContext:
        """What a server with this certificate speaks.

        Args:
            folder: for a file that is read at once.
            clients: vouches for the certificates of clients, who then need one.
        """
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.write(folder / f"{secrets.token_hex(8)}.pem"))
        if clients is not None:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(cadata=clients.pem())
        return made


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


# ---- logins ----------------------------------------------------------------------------------------------------

Login: TypeAlias = Generator[bytes, bytes, bytes]
"""Takes what a client sends, step by step, and gives the answers; returns the last one. Raises RefusedError."""


class RefusedError(Exception):
    """A login fails; has what the client is told."""


def plain(users: Mapping[str, str]) -> Login:
    """PLAIN. Its refusal repeats the password, as no broker should: nobody must show what it says as it is."""
    _, user, password = (yield b"").decode().split("\0")
    if users.get(user) != password:
        raise RefusedError(f"Authentication failed: Invalid username or password ({user}:{password})")
    return b""


def scram(algorithm: str, users: Mapping[str, str]) -> Login:
    """SCRAM: the password is not sent."""

    def mac(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, algorithm)

    bare = (yield b"").split(b",", 2)[2]
    fields = _fields(bare)
    password = users.get(fields["n"].replace("=2C", ",").replace("=3D", "="))
    salt, nonce = secrets.token_bytes(16), fields["r"] + secrets.token_hex(8)
    first = f"r={nonce},s={base64.b64encode(salt).decode()},i=4096".encode()
    last = yield first
    without_proof, _, proof = last.rpartition(b",p=")
    salted = hashlib.pbkdf2_hmac(algorithm, (password or "").encode(), salt, 4096)
    said, key = b",".join((bare, first, without_proof)), mac(salted, b"Client Key")
    signature = mac(hashlib.new(algorithm, key).digest(), said)
    right = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    if password is None or _fields(without_proof)["r"] != nonce or base64.b64decode(proof) != right:
        raise RefusedError("Authentication failed during authentication due to invalid credentials")
    return b"v=" + base64.b64encode(mac(mac(salted, b"Server Key"), said))


def _fields(text: bytes) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.decode().split(","))}


MECHANISMS: Mapping[str, Callable[[Mapping[str, str]], Login]] = {
    "PLAIN": plain,
    "SCRAM-SHA-256": partial(scram, "sha256"),
    "SCRAM-SHA-512": partial(scram, "sha512"),
}


class _Gate:
    """The login of one connection.

    Attributes:
        passed: whether the client has logged in.
        closed: whether it has been refused.
    """

    def __init__(self, users: Mapping[str, str], mechanisms: Sequence[str]) -> None:
        self.users, self.mechanisms = users, mechanisms
        self.passed = self.closed = False
        self.login: Login | None = None

    def answer(self, key: int, version: int, body: bytes) -> bytes:
        """The answer to a request, which the gate closes on when it is not one of a login."""
        if key == SASL_HANDSHAKE and version == 1:
            return self._handshake(body[2:].decode())
        if key == _SASL_AUTHENTICATE and version in (0, 1):
            return self._authenticate(body[4:]) + (b"" if version == 0 else bytes(8))
        self.closed = True
        return b""

    def _handshake(self, mechanism: str) -> bytes:
        known = mechanism in self.mechanisms
        if known:
            self.login = MECHANISMS[mechanism](self.users)
            next(self.login)
        else:
            self.closed = True
        code = 0 if known else _UNSUPPORTED_MECHANISM
        return struct.pack(">hi", code, len(self.mechanisms)) + b"".join(map(_text, self.mechanisms))

    def _authenticate(self, token: bytes) -> bytes:
        if self.login is None:
            self.closed = True
            return struct.pack(">h", _WRONG_STATE) + _text("SaslHandshake comes first") + bytes(4)
        try:
            answer = self.login.send(token)
        except StopIteration as end:
            self.passed, answer = True, end.value
        except RefusedError as error:
            self.closed = True
            return struct.pack(">h", _REFUSED) + _text(str(error)) + bytes(4)
        return struct.pack(">hhi", 0, -1, len(answer)) + answer


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


# ---- connections -----------------------------------------------------------------------------------------------


class _Stream:
    """A connection without TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self, size: int) -> bytes:
        """The next bytes. Raises IncompleteReadError at the end."""
        return await self.reader.readexactly(size)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def frame(self) -> bytes | None:
        """The next request or answer; None for what cannot be one."""
        (size,) = struct.unpack(">i", await self.read(4))
        return await self.read(size) if 0 <= size <= _LARGEST else None

    async def send(self, frame: bytes) -> None:
        """Sends a request or an answer."""
        await self.write(struct.pack(">i", len(frame)) + frame)


class _SecuredStream(_Stream):
    """The server's side of a connection with TLS. The streams of asyncio do not tell a client why they refuse it."""

    def __init__(self, stream: _Stream, context: ssl.SSLContext) -> None:
        super().__init__(stream.reader, stream.writer)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._plain = bytearray()

    async def handshake(self) -> None:
        """Raises SSLError, after the client has been told."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._exchange()
            else:
                return
            finally:
                await super().write(self._out.read())

    async def read(self, size: int) -> bytes:
        while len(self._plain) < size:
            try:
                data = self._tls.read(_PIECE)
            except ssl.SSLWantReadError:
                await self._exchange()
                continue
            if not data:  # the client has said that it goes
                raise asyncio.IncompleteReadError(bytes(self._plain), size)
            self._plain += data
        found = bytes(self._plain[:size])
        del self._plain[:size]
        return found

    async def write(self, data: bytes) -> None:
        self._tls.write(data)
        await super().write(self._out.read())

    async def _exchange(self) -> None:
        """Sends what has to be sent, and waits for more."""
        await super().write(self._out.read())
        data = await self.reader.read(_PIECE)
        if not data:
            raise asyncio.IncompleteReadError(b"", None)
        self._in.write(data)


async def _accepted(connection: socket.socket) -> _Stream:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
    return _Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


# ---- the front -------------------------------------------------------------------------------------------------


@dataclass
class Front:
    """A port before a broker. Attributes may be changed while it runs: they count for new connections.

    Attributes:
        broker: port of the broker.
        tls: what it speaks; None for no TLS.
        users: who may log in, with their passwords; None where nobody has to.
        mechanisms: by which they may.
        port: where it is.
        refused: how many logins it has refused.
        leaves_at: the request at which it cuts the connection; None for none.
        left: how often it has done so.
    """

    broker: int
    tls: ssl.SSLContext | None = None
    users: Mapping[str, str] | None = None
    mechanisms: Sequence[str] = tuple(MECHANISMS)
    port: int = 0
    refused: int = 0
    leaves_at: int | None = None
    left: int = 0
    _loop: asyncio.AbstractEventLoop | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def servers(self) -> str:
        """What tables have as ``properties.bootstrap.servers``."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def drop(self) -> None:
        """Cuts all connections."""

        def cut() -> None:
            for task in self._connections:
                task.cancel()
            done.set_result(None)

        done = Future[None]()
        self.call(cut)
        done.result()

    def call(self, what: Callable[[], object]) -> None:
        """Has the front's thread do something soon."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(what)

    async def serve(self, listener: socket.socket, started: Future[None], over: asyncio.Event) -> None:
        """Takes connections until it is over."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listener, self._accept, listener)
        started.set_result(None)
        await over.wait()
        self._loop.remove_reader(listener)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # the client has gone
            return
        task = asyncio.ensure_future(self._serve(connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(lambda _: connection.close())

    async def _serve(self, connection: socket.socket) -> None:
        """Serves a client until it goes, or the broker goes, or it is sent away."""
        writers: list[asyncio.StreamWriter] = []
        try:
            client = await _accepted(connection)
            writers.append(client.writer)
            if self.tls is not None:
                client = _SecuredStream(client, self.tls)
                await client.handshake()
            broker = _Stream(*await asyncio.open_connection(HOST, self.broker))
            writers.append(broker.writer)
            async with asyncio.TaskGroup() as both:
                answering = both.create_task(self._answers(broker, client))
                await self._requests(client, broker)
                answering.cancel()
            client.writer.close()
            await client.writer.wait_closed()
        except* (OSError, asyncio.IncompleteReadError):  # one side has gone
            pass
        finally:
            for writer in writers:
                writer.transport.abort()

    async def _requests(self, client: _Stream, broker: _Stream) -> None:
        gate = None if self.users is None else _Gate(self.users, self.mechanisms)
        while gate is None or not gate.closed:
            request = await client.frame()
            if request is None:
                return
            key, version, number, name = struct.unpack_from(">hhih", request)
            if key == self.leaves_at:
                self.left += 1
                return
            if gate is None or gate.passed or key == _API_VERSIONS:
                await broker.send(request)
            elif answer := gate.answer(key, version, request[10 + max(0, name) :]):
                self.refused += gate.closed
                await client.send(struct.pack(">i", number) + answer)

    async def _answers(self, broker: _Stream, client: _Stream) -> None:
        there, here = (HOST.encode() + struct.pack(">i", port) for port in (self.broker, self.port))
        while (answer := await broker.frame()) is not None:
            await client.send(answer.replace(there, here))


@contextmanager
def before(broker: int, tls: ssl.SSLContext | None = None, users: Mapping[str, str] | None = None) -> Iterator[Front]:
    """A front that runs.

    Args:
        broker: port of the broker.
        tls: what the front speaks.
        users: who may log in.
    """
    front, started, over = Front(broker, tls, users), Future[None](), asyncio.Event()
    with socket.create_server((HOST, 0)) as listener:
        listener.setblocking(False)
        front.port = listener.getsockname()[1]
        serving = front.serve(listener, started, over)
        thread = threading.Thread(target=asyncio.run, args=(serving,), name="kafka-front")
        thread.start()
        started.result()
        try:
            yield front
        finally:
            front.call(over.set)
            thread.join()
