"""A client of Confluent's Schema Registry: schemas by id, and schemas that are registered under a subject.

Source: the REST interface of the registry (``/schemas/ids``, ``/subjects``), which others implement too, and the
options of Flink's ``AvroConfluentFormatOptions``. A process asks for each schema once. A registry that does not answer
is asked again until the time-out.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from stateplan.common.errors import DataError, OptionError, Place, nearest, one_of
from stateplan.common.failure_reasons import reason_of
from stateplan.common.files import safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import SHORT, without
from stateplan.common.secrets import has_reference, resolve_references
from stateplan.connectors.formats.avro_schema import Schema, schema_text

TIMEOUT_MS = 10_000
"""How long a registry may take, unless ``properties.http.read.timeout.ms`` says otherwise."""

_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMES = ("http.connect.timeout.ms", "http.read.timeout.ms")
_KEYS_OF_FLINK = {
    "basic.auth.credentials.source": "basic-auth.credentials-source",
    "basic.auth.user.info": "basic-auth.user-info",
    "bearer.auth.credentials.source": "bearer-auth.credentials-source",
    "bearer.auth.token": "bearer-auth.token",
    "schema.registry.ssl.keystore.location": "ssl.keystore.location",
    "schema.registry.ssl.keystore.password": "ssl.keystore.password",
    "schema.registry.ssl.truststore.location": "ssl.truststore.location",
    "schema.registry.ssl.truststore.password": "ssl.truststore.password",
    "auto.register.schemas": "auto.register.schemas",
}
"""Properties that have an option of their own, where secrets are known as such."""

_SOURCES = {"basic-auth.credentials-source": ("USER_INFO", "URL"), "bearer-auth.credentials-source": ("STATIC_TOKEN",)}

_schemas: dict[tuple[str, int], tuple[Schema, tuple[Schema, ...]]] = {}
_ids: dict[tuple[str, str, str], int] = {}


@dataclass(frozen=True)
class Registry:
    """A schema registry, as the options of a format name it. Picklable; a connection lives as long as a request.

    Attributes:
        format: the format that has these options.
        options: the options of the format, as written, with the name of the format before each key. References to
            secrets are resolved when there is something to ask.
    """

    format: str
    options: Mapping[str, str] = field(repr=False)

    def option(self, key: str) -> str | None:
        """The value of an option with what references stand for; None for one that is not written."""
        name = f"{self.format}.{key}"
        text = self.options.get(name)
        return None if text is None else resolve_references(text, name)

    def check(self, place: Place | None = None) -> None:
        """Checks what can be checked without the registry.

        Raises:
            OptionError: OPT183 for a property, OPT185 for a source of credentials, that is not supported; OPT187 for
                a URL that is none.
        """
        if not has_reference(self.options.get(f"{self.format}.url", "")):
            list(self._urls(place))
        for key in self._properties():
            own = _KEYS_OF_FLINK.get(key)
            if own is not None:
                raise OptionError("OPT183.moved", key=key, own=f"{self.format}.{own}", place=place)
            if key not in _TIMES:
                expectation = one_of(f"'{name}'" for name in _TIMES)
                raise OptionError("OPT183", key=key, place=place, expected=expectation, hint=nearest(key, _TIMES))
        self._timeouts(place)
        for key, words in _SOURCES.items():
            text = self.options.get(f"{self.format}.{key}")
            if text is not None and text not in words:
                raise OptionError(
                    "OPT185",
                    key=f"{self.format}.{key}",
                    text=text,
                    place=place,
                    expected=one_of(f"'{name}'" for name in words),
                    hint=nearest(text, words),
                )

    # what is asked

    def schema(self, number: int, place: Place | None = None) -> tuple[Schema, tuple[Schema, ...]]:
        """The schema of an id, and before it those that it refers to, in the order in which they build on each other.

        Raises:
            DataError: DATA464 to DATA466; OptionError: OPT120, OPT121, OPT184.
        """
        key = (self.options[f"{self.format}.url"], number)
        if key not in _schemas:
            status, answer = self._ask("GET", f"/schemas/ids/{number}", None, place)
            if status == 404 and isinstance(answer, dict):
                raise DataError("DATA464", url=self._public_url(), id=number, place=place)
            _schemas[key] = self._parse_answer(status, answer, number, place)
        return _schemas[key]

    def _parse_answer(
        self, status: int, answer: Any, number: int, place: Place | None
    ) -> tuple[Schema, tuple[Schema, ...]]:
        if status != 200 or not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise self._no_answer(status, answer, place)
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise DataError("DATA464.type", url=self._public_url(), id=number, type=kind, place=place)
        try:
            # The text of a primitive schema may be a bare word.
            text = answer["schema"]
            schema = json.loads(text) if text[:1] in '{["' else text
        except ValueError as error:
            raise self._no_answer(status, answer, place) from error
        before: list[Schema] = []
        for reference in answer.get("references") or ():
            path = f"/subjects/{quote(str(reference['subject']), safe='')}/versions/{reference['version']}"
            status, referenced_schema = self._ask("GET", path, None, place)
            inner, more = self._parse_answer(status, referenced_schema, number, place)
            before += [s for s in (*more, inner) if s not in before]
        return schema, tuple(before)

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema under a subject, which is registered when it is not known there, unless
        ``auto.register.schemas`` is off.

        Raises:
            DataError: DATA465 to DATA467; OptionError: OPT120, OPT121, OPT184.
        """
        text = schema_text(schema)
        key = (self.options[f"{self.format}.url"], subject, text)
        if key not in _ids:
            automatic = (self.option("auto.register.schemas") or "true").lower() == "true"
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if automatic else "")
            status, answer = self._ask("POST", path, {"schema": text}, None)
            url = self._public_url()
            if status == 404 and not automatic and isinstance(answer, dict):
                raise DataError("DATA467.unregistered", url=url, subject=subject, schema=text)
            if status in (404, 409, 422) and isinstance(answer, dict):
                raise DataError("DATA467", url=url, subject=subject, reason=self._reason(answer), schema=text)
            if status != 200 or not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
                raise self._no_answer(status, answer, None)
            _ids[key] = answer["id"]
        return _ids[key]

    # how it is asked

    def _ask(self, method: str, path: str, body: Any, place: Place | None) -> tuple[int, Any]:
        """The status and the JSON of an answer. Raises DataError DATA465, DATA466."""
        import httpx

        connect, read = self._timeouts(place)
        ends = time.monotonic() + read
        wait, problem = 0.1, "no address"
        user, token = self._credentials()
        headers = {"Accept": _TYPE} | ({"Authorization": f"Bearer {token}"} if token is not None else {})
        context = self._context()
        while True:
            for url, own in self._urls():
                left = max(ends - time.monotonic(), 0.1)
                limits = httpx.Timeout(min(left, read), connect=min(left, connect))
                login = None if token is not None else user or own
                try:
                    with httpx.Client(
                        auth=login, headers=headers, timeout=limits, verify=context, follow_redirects=True
                    ) as client:
                        content = None if body is None else json.dumps(body).encode()
                        answer = client.request(
                            method, url + path, content=content, headers={"Content-Type": _TYPE} if content else {}
                        )
                except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                    problem = self._without_secrets(str(error)) or type(error).__name__
                    continue
                if answer.status_code in (401, 403):
                    reason = self._reason(_json_of(answer.content))
                    raise DataError(
                        "DATA466", url=self._public_url(), status=answer.status_code, reason=reason, place=place
                    )
                if answer.status_code < 500 and answer.status_code != 429:
                    return answer.status_code, _json_of(answer.content)
                problem = f"status {answer.status_code}: {self._reason(_json_of(answer.content))}"
            if time.monotonic() + wait >= ends:
                raise DataError(
                    "DATA465",
                    url=self._public_url(),
                    reason=problem,
                    failure=f"did not answer within {read:g} s",
                    place=place,
                )
            time.sleep(wait)
            wait = min(wait * 2, 1.0)

    def _urls(self, place: Place | None = None) -> Iterator[tuple[str, tuple[str, str] | None]]:
        """The addresses, each without credentials, and the credentials in it. Raises OptionError OPT187."""
        for text in (self.option("url") or "").split(","):
            try:
                parts = urlsplit(text.strip())
                good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            except ValueError:
                good = False
            if not good:
                raise OptionError("OPT187", key=f"{self.format}.url", text=safe_url(text.strip()), place=place)
            host = parts.netloc.rpartition("@")[2]
            url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
            own = None
            if parts.username is not None:
                own = (unquote(parts.username), unquote(parts.password or ""))
            yield url, own

    def _credentials(self) -> tuple[tuple[str, str] | None, str | None]:
        """User and password, and the token."""
        token = self.option("bearer-auth.token")
        source = self.options.get(f"{self.format}.basic-auth.credentials-source")
        info = None if source == "URL" else self.option("basic-auth.user-info")
        if info is None:
            return None, token
        user, _, password = info.partition(":")
        return (user, password), token

    def _context(self) -> ssl.SSLContext:
        """How TLS is spoken. Raises OptionError OPT184."""
        truststore, own = self.option("ssl.truststore.location"), self.option("ssl.keystore.location")
        context = ssl.create_default_context()
        for key, path in (("ssl.truststore.location", truststore), ("ssl.keystore.location", own)):
            if path is None:
                continue
            try:
                if key == "ssl.truststore.location":
                    context = ssl.create_default_context(cafile=path)
                else:
                    context.load_cert_chain(path, password=self.option("ssl.keystore.password") or "")
            except (OSError, ValueError) as error:
                reason = reason_of(error)
                raise OptionError("OPT184", key=f"{self.format}.{key}", path=path, reason=reason) from error
        return context

    def _properties(self) -> dict[str, str]:
        """The properties: as one text (``a:1,b:2``), and with a key each."""
        prefix = f"{self.format}.properties"
        properties: dict[str, str] = {}
        for entry in self.options.get(prefix, "").split(","):
            key, separator, value = entry.partition(":")
            if separator or key.strip():
                properties[key.strip()] = value.strip()
        own = {k.removeprefix(f"{prefix}."): v for k, v in self.options.items() if k.startswith(f"{prefix}.")}
        return properties | own

    def _timeouts(self, place: Place | None) -> tuple[float, float]:
        """Seconds to connect, and for the answer."""
        properties, seconds = self._properties(), []
        for key in _TIMES:
            text = properties.get(key, str(TIMEOUT_MS))
            if not text.isdigit() or not int(text):
                raise OptionError("OPT183.number", key=key, text=text, place=place)
            seconds.append(int(text) / 1000)
        return seconds[0], seconds[1]

    # what is said about it

    def _public_url(self) -> str:
        return ", ".join(url for url, _ in self._urls())

    def _reason(self, answer: Any) -> str:
        reason = answer.get("message") if isinstance(answer, dict) else answer
        return self._without_secrets(" ".join(str(reason or "no reason given").split())[:300])

    def _without_secrets(self, text: str) -> str:
        secrets = [self.option(key) for key in ("basic-auth.user-info", "bearer-auth.token", "ssl.keystore.password")]
        secret_texts = {*filter(None, secrets), *(":".join(login) for _, login in self._urls() if login is not None)}
        secret_texts |= {credentials.partition(":")[2] for credentials in secret_texts}
        secret_texts |= {
            form for part in secret_texts for form in (quote(part, safe=""), base64.b64encode(part.encode()).decode())
        }
        return without(text, {part for part in secret_texts if len(part) > SHORT})

    def _no_answer(self, status: int, answer: Any, place: Place | None) -> DataError:
        reason = f"status {status}: {self._reason(answer)}"
        return DataError(
            "DATA465", url=self._public_url(), reason=reason, failure="gave no readable answer", place=place
        )


def _json_of(content: bytes) -> Any:
    """The JSON of an answer; its text where it is none."""
    try:
        return json.loads(content)
    except ValueError:
        return content.decode("utf-8", "replace")
