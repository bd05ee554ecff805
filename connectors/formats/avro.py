"""The Avro formats: ``avro``, ``avro-confluent`` and ``debezium-avro-confluent``.

The schema of a table is the one that Flink derives from its columns. Messages of ``avro`` are a value without a header,
which are read with that schema; files are container files, which have their own. Messages of the other two begin with
the id of their schema in a schema registry. Columns are found by name, and a column that a schema does not have is
NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from stateplan.common.changelog import RETRACT
from stateplan.common.errors import CatalogError, OptionError, Place
from stateplan.common.options import Option, OptionType, OptionValues, Role, alike, flag
from stateplan.common.types import LogicalType, row_type
from stateplan.connectors.formats.avro_schema import (
    Node,
    NotHeldError,
    Schema,
    event_schema,
    event_type,
    named_schemas,
    table_schema,
    type_of,
)
from stateplan.connectors.formats.base import (
    NO_VALUE_TYPES,
    Decoder,
    Encoder,
    Fields,
    Format,
    MessageDecoder,
    MessageEncoder,
)
from stateplan.connectors.formats.schema_registry import Registry

_TEXT = OptionType.STRING
_UNHELD = NO_VALUE_TYPES | {"INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"}


class _Avro(Format):
    """What the formats have in common."""

    unheld = _UNHELD
    text_keys = True
    by_name = True
    has_messages = True
    is_packed = True

    def schema(self, values: OptionValues, fields: Fields, place: Place | None = None) -> Schema:
        """The schema of a table. Raises CatalogError CAT102, OptionError OPT182."""
        self.check(fields, place)
        try:
            return self.derived_schema(values, fields)
        except NotHeldError as error:
            code = "CAT102.reason" if error.declared_type is not None else "CAT102.avro_name"
            hint = self.hint(error)
            raise CatalogError(
                code,
                owner=f"the format '{self.name}'",
                column=error.column,
                type=error.declared_type or "",
                reason=error.reason,
                place=place,
                hint=hint,
            ) from error

    def derived_schema(self, values: OptionValues, fields: Fields) -> Schema:
        """The schema that Flink derives. Raises NotHeldError."""
        raise NotImplementedError(self.name)

    def hint(self, error: NotHeldError) -> str | None:
        """What helps with a column that is not held."""
        return None

    def check_columns(self, options: Mapping[str, str], fields: Fields, place: Place | None = None) -> None:
        self.schema(self.values(options), fields, place)


class AvroFormat(_Avro):
    """Avro without a schema registry."""

    name = "avro"
    description = (
        "Apache Avro. A message is one value in the schema that Flink derives from the columns; files are container "
        "files of any schema. Columns are found by name."
    )
    options = (
        Option(
            "encoding",
            OptionType.ENUM,
            "Encoding of messages: Avro's binary or its JSON encoding. Files are always binary.",
            default="binary",
            values=("binary", "json"),
        ),
        Option(
            "codec",
            OptionType.ENUM,
            "Compression of written files. Messages have none. Files in `zstandard` can also be read.",
            default="snappy",
            role=Role.SINK,
            values=("snappy", "null", "deflate", "bzip2", "xz"),
        ),
        flag(
            "timestamp_mapping.legacy",
            "Whether TIMESTAMP is `timestamp-millis` in Avro. Otherwise TIMESTAMP is one of the types "
            "`local-timestamp-*`, and TIMESTAMP_LTZ one of the types `timestamp-*`, by its precision.",
            default=True,
        ),
        flag(
            "open.fastread",
            "Which of the two readers of Java's Avro library to use.",
            Role.SOURCE,
            no_effect="stateplan has one reader",
        ),
    )
    extension = "avro"

    def derived_schema(self, values: OptionValues, fields: Fields) -> Schema:
        return table_schema(fields, values["timestamp_mapping.legacy"])

    def hint(self, error: NotHeldError) -> str | None:
        if error.declared_type is not None and error.declared_type.is_timestamp:
            return "'avro.timestamp_mapping.legacy' = 'false' holds it, unless it is within a list or a map"
        return None

    def message_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> MessageDecoder:
        from stateplan.connectors.formats.avro_decode import AvroDecoder

        values = self._of_messages(options)
        schema, as_json = self.schema(values, fields), values["encoding"] == "json"
        return AvroDecoder([fields[i] for i in projection], (), schema, as_json)

    def message_encoder(self, options: Mapping[str, str], fields: Fields) -> MessageEncoder:
        from stateplan.connectors.formats.avro_encode import AvroEncoder

        values = self._of_messages(options)
        return AvroEncoder(list(fields), self.schema(values, fields), as_json=values["encoding"] == "json")

    def _of_messages(self, options: Mapping[str, str]) -> OptionValues:
        if f"{self.name}.codec" in options:
            raise OptionError("OPT181", key=f"{self.name}.codec", meant="files", data="messages")
        return self.values(options)

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> Decoder:
        from stateplan.connectors.formats.avro_decode import AvroDecoder

        self._of_files(values)
        return AvroDecoder([fields[i] for i in projection], tuple(metadata), self.schema(values, fields))

    def make_encoder(self, values: OptionValues, fields: Fields) -> Encoder:
        from stateplan.connectors.formats.avro_encode import AvroEncoder

        self._of_files(values)
        return AvroEncoder(list(fields), self.schema(values, fields), values["codec"])

    def _of_files(self, values: OptionValues) -> None:
        if values["encoding"] != "binary":
            raise OptionError("OPT181", key=f"{self.name}.encoding", meant="messages", data="files")


_OLDER = "schema-registry."
"""What some options begin with in older scripts."""

_REGISTRY = (
    Option(
        "url",
        _TEXT,
        "URL of the schema registry, or several, separated by commas. The first one that responds is used. Required.",
    ),
    Option(
        "subject",
        _TEXT,
        "Subject under which the schema of a sink is registered. Default: `<topic>-value`, or `<topic>-key` for the "
        "format of keys.",
        role=Role.SINK,
    ),
    Option(
        "schema",
        _TEXT,
        "Schema as JSON, for one that differs from the schema that is derived from the columns in names, defaults or "
        "the order of unions. It must yield the types of the columns.",
    ),
    flag(
        "auto.register.schemas",
        "Whether a schema that the subject does not have is registered. Otherwise it is an error.",
        Role.SINK,
        default=True,
    ),
    *alike(
        Option("ssl.keystore.location", _TEXT, "File with the certificate and the key of the client, as PEM."),
        Option("ssl.keystore.password", _TEXT, "Password of the key."),
        Option("ssl.truststore.location", _TEXT, "File with the certificates to trust, as PEM."),
    ),
    Option(
        "ssl.truststore.password",
        _TEXT,
        "Password of the certificates to trust.",
        no_effect="certificates in a PEM file have no password",
    ),
    Option(
        "basic-auth.credentials-source",
        _TEXT,
        "Where user name and password are: USER_INFO for `basic-auth.user-info`, URL for the URL.",
    ),
    Option("basic-auth.user-info", _TEXT, "User name and password, with a colon between them."),
    Option("bearer-auth.credentials-source", _TEXT, "Where the token is: STATIC_TOKEN for `bearer-auth.token`."),
    Option("bearer-auth.token", _TEXT, "Token for the registry."),
    Option(
        "properties",
        _TEXT,
        "Settings of the client as `key:value`, with commas between them: `http.connect.timeout.ms` and "
        "`http.read.timeout.ms`, each 10000 by default.",
    ),
    Option("properties.*", _TEXT, "One of these settings."),
    *(Option(f"{_OLDER}{key}", _TEXT, f"Older name of `{key}`.") for key in ("url", "subject", "schema")),
)


class _WithRegistry(_Avro):
    """Formats whose messages have the id of their schema."""

    options = _REGISTRY
    has_files = False

    def table_type(self, fields: Fields) -> LogicalType:
        """The type that a schema must give which a user wrote."""
        raise NotImplementedError(self.name)

    def schema(self, values: OptionValues, fields: Fields, place: Place | None = None) -> Schema:
        text = values["schema"]
        if text is None:
            return super().schema(values, fields, place)
        self.check(fields, place)
        key = f"{self.name}.schema"
        try:
            schema = json.loads(text)
            schema_type = type_of(Node(schema, named_schemas(schema, {})))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise OptionError("OPT182", key=key, reason=str(error), place=place) from error
        table_type = self.table_type(fields)
        if schema_type != table_type:
            raise OptionError("OPT182.type", key=key, found=schema_type, wanted=table_type, place=place)
        return schema

    def values(self, options: Mapping[str, str]) -> OptionValues:
        return super().values(self._newer(options))

    def check_columns(self, options: Mapping[str, str], fields: Fields, place: Place | None = None) -> None:
        super().check_columns(options, fields, place)
        if self.values(options)["url"] is None:
            user, expectation = f"the format '{self.name}'", "the URL of a schema registry"
            raise OptionError("OPT101", key=f"{self.name}.url", user=user, expectation=expectation, place=place)
        self.registry(options).check(place)

    def registry(self, options: Mapping[str, str]) -> Registry:
        """The registry of a table."""
        return Registry(self.name, self._newer(options))

    def for_topic(self, options: Mapping[str, str], topic: str, part: str) -> Mapping[str, str]:
        return {f"{self.name}.subject": f"{topic}-{part}", **self._newer(options)}

    def subject(self, options: Mapping[str, str]) -> str:
        """The subject of a sink. Raises OptionError OPT186."""
        key, subject = f"{self.name}.subject", self.values(options)["subject"]
        if subject is None:
            raise OptionError("OPT186", key=key)
        return str(subject)

    def _newer(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of the format, by their newer names. Source: the fallback keys of Flink's options."""
        own = {k: text for k, text in options.items() if k.startswith(f"{self.name}.")}
        older = f"{self.name}.{_OLDER}"
        return {k.replace(older, f"{self.name}.", 1): v for k, v in own.items() if k.startswith(older)} | {
            k: v for k, v in own.items() if not k.startswith(older)
        }


class AvroConfluent(_WithRegistry):
    """Avro messages whose schemas are in a schema registry."""

    name = "avro-confluent"
    description = (
        "Apache Avro with a schema registry (Confluent's, or another with its REST interface). A message begins with "
        "the id of the schema that it was written with. A sink registers the schema of its table."
    )

    def derived_schema(self, values: OptionValues, fields: Fields) -> Schema:
        return table_schema(fields, legacy=True)

    def table_type(self, fields: Fields) -> LogicalType:
        return row_type(list(fields), nullable=False)

    def message_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> MessageDecoder:
        from stateplan.connectors.formats.avro_decode import RegistryDecoder

        self.check_columns(options, fields)
        values = self.values(options)
        reader_schema = self.schema(values, fields) if values["schema"] is not None else None
        return RegistryDecoder([fields[i] for i in projection], self.registry(options), reader_schema, self.name)

    def message_encoder(self, options: Mapping[str, str], fields: Fields) -> MessageEncoder:
        from stateplan.connectors.formats.avro_encode import RegistryEncoder

        self.check_columns(options, fields)
        schema = self.schema(self.values(options), fields)
        return RegistryEncoder(list(fields), self.registry(options), self.subject(options), schema, self.name)


class DebeziumAvroConfluent(_WithRegistry):
    """Debezium's change events in Avro with a schema registry."""

    name = "debezium-avro-confluent"
    description = (
        "Debezium change events in Avro with a schema registry. Events are read and written as in `debezium-json`; a "
        "message without bytes is skipped."
    )
    source_changes = RETRACT
    sink_changes = RETRACT
    extension: ClassVar[str] = ""

    def derived_schema(self, values: OptionValues, fields: Fields) -> Schema:
        return event_schema(fields)

    def table_type(self, fields: Fields) -> LogicalType:
        return event_type(fields)

    def message_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> MessageDecoder:
        from stateplan.connectors.formats.avro_decode import EventDecoder, RegistryDecoder, event_fields

        self.check_columns(options, fields)
        values = self.values(options)
        reader_schema = self.schema(values, fields) if values["schema"] is not None else None
        # Without any column one is read all the same: a row that exists must be distinguished from one that does not.
        columns = event_fields([fields[i] for i in (projection or (0,))])
        return EventDecoder(RegistryDecoder(columns, self.registry(options), reader_schema, self.name), len(projection))

    def message_encoder(self, options: Mapping[str, str], fields: Fields) -> MessageEncoder:
        from stateplan.connectors.formats.avro_encode import EventEncoder

        self.check_columns(options, fields)
        schema = self.schema(self.values(options), fields)
        return EventEncoder(list(fields), self.registry(options), self.subject(options), schema, self.name)
