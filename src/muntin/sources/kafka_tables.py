"""Options of ``CREATE TABLE … WITH`` for a topic, by our own names, Flink's and Spark's.

Each option is mapped to an argument of the function that reads or writes the topic, or refused by
name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from muntin.model.errors import OptionError
from muntin.model.references import encode_user
from muntin.sources.kafka_options import refuse_unknown_name
from muntin.sources.text_values import BOOLEAN_TEXTS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Names of Flink and Spark for our own options.
_READING = {
    "bootstrap.servers": "servers",
    "kafka.bootstrap.servers": "servers",
    "properties.bootstrap.servers": "servers",
    "subscribe": "topic",
    "startingOffsets": "starting",
    "includeHeaders": "headers",
    "maxOffsetsPerTrigger": "per_batch",
    "value.format": "format",
    "properties.group.id": "group",
    "kafka.group.id": "group",
    "group.id": "group",
}
_WRITING = {name: ours for name, ours in _READING.items() if ours in ("servers", "topic", "format")}
_URLS = tuple(
    f"{where}avro-confluent.{name}"
    for where in ("", "value.")
    for name in ("url", "schema-registry.url")
)
_USERS = ("avro-confluent.basic-auth.user-info", "value.avro-confluent.basic-auth.user-info")
_SOURCES = (
    "avro-confluent.basic-auth.credentials-source",
    "value.avro-confluent.basic-auth.credentials-source",
)
_FORMATS = {"avro-confluent": "avro"}
# Flink's options of which only one value has an effect that we share, and the hint for others.
_SINGLE_VALUED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "json.ignore-parse-errors": (("true",), "a message that can't be parsed is rejected, counted "
                                 "and kept, and never ends the query; leave it out"),
    "csv.ignore-parse-errors": (("true",), "a message that can't be parsed is rejected, counted "
                                "and kept, and never ends the query; leave it out"),
    "json.fail-on-missing-field": (("false",), "a field that is missing is NULL; leave it out"),
    "json.timestamp-format.standard": (("SQL", "ISO-8601"), "give 'SQL' or 'ISO-8601': both are "
                                       "read"),
    "csv.field-delimiter": ((",",), "fields are separated by commas; leave it out"),
    "csv.quote-character": (('"',), "fields are quoted with \"; leave it out"),
    "value.fields-include": (("ALL",), "all columns are of the value; leave it out"),
    "scan.bounded.mode": (("unbounded",), "read the table in batch mode, without it"),
    "sink.delivery-guarantee": (("at-least-once",), "each row is sent at least once; leave it "
                                "out"),
    "sink.semantic": (("at-least-once",), "each row is sent at least once; leave it out"),
    "sink.partitioner": (("default",), "keys choose partitions; leave it out"),
}  # fmt: skip
# Flink's options that have no equivalent here.
_UNSUPPORTED = {
    "topic-pattern": "name the topics: 'topic' = 'a,b'",
    "key.format": "leave it out: the column key is the message's key, as text",
    "key.fields": "leave it out: the column key is the message's key, as text",
    "key.fields-prefix": "leave it out: the column key is the message's key, as text",
    "scan.topic-partition-discovery.interval": "leave it out: new partitions are read from the "
    "next batch on",
    "scan.parallelism": "leave it out: a batch is shared out over the cores",
    "sink.parallelism": "leave it out: a batch is shared out over the cores",
    "sink.transactional-id-prefix": "leave it out: each row is sent at least once",
    "csv.null-literal": "leave it out: a field that is empty and not quoted is NULL",
    "csv.escape-character": "leave it out: a quote is doubled, or has a backslash before it",
    "csv.allow-comments": "leave it out: every message is a record",
    "csv.array-element-delimiter": "leave it out: CSV has no arrays",
    "csv.disable-quote-character": "leave it out: fields may be quoted",
    "json.map-null-key.mode": "leave it out",
    "json.map-null-key.literal": "leave it out",
    "json.encode.decimal-as-plain-number": "leave it out",
    "json.encode.ignore-null-fields": "leave it out",
    "json.infer-schema.flatten-nested-columns.enabled": "leave it out",
}
_SCAN = (
    "scan.startup.mode", "scan.startup.timestamp-millis", "scan.startup.specific-offsets",
)  # fmt: skip
_MODES = {"earliest-offset": "earliest", "latest-offset": "latest", "group-offsets": "group"}
_OURS = (
    "format", "schema", "starting", "reader", "registry", "group", "patience", "bytes_per_batch",
)  # fmt: skip


def reading_arguments(table: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of ``kafka`` for the options of a declared table, without ``connector``.

    ``options`` among them has those of Kafka's clients.
    """
    remaining = dict(options)
    arguments = _translate_names(table, remaining, _READING)
    if (starting := _parse_scan_options(remaining, arguments)) is not None:
        arguments["starting"] = starting
    parsers = {"headers": _parse_boolean, "per_batch": _parse_count}
    _take(remaining, arguments, dict.fromkeys(_OURS, str) | parsers)
    ours = (*_OURS, "headers", "per_batch", *_SCAN)
    return arguments | {"options": _parse_client_options(remaining, ours)}


def writing_arguments(table: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of ``to_kafka`` for the options of a declared table."""
    remaining = dict(options)
    if "key.fields" in remaining and "key" not in remaining:
        remaining["key"] = remaining.pop("key.fields").replace(";", ",")
    if remaining.get("key.format") in ("json", "raw"):
        # One column is sent as it is, several columns as a JSON object.
        del remaining["key.format"]
    arguments = _translate_names(table, remaining, _WRITING)
    if len(arguments["topic"]) != 1:
        raise OptionError(
            "topic", ",".join(arguments["topic"]), "names several topics", "write to one"
        )
    arguments["topic"] = arguments["topic"][0]
    for name in _SCAN:
        if name in remaining:
            hint = f"leave it out, since {table} is written to"
            raise OptionError(name, remaining[name], "only applies to reading", hint)
    ours = ("format", "schema", "registry", "patience")
    _take(remaining, arguments, dict.fromkeys(ours, str))
    if "key" in remaining:
        arguments["key"] = remaining.pop("key")
    return arguments | {"options": _parse_client_options(remaining, (*ours, "key"))}


def _translate_names(
    table: str, options: dict[str, str], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the servers and the topics, and translate all other names."""
    for name, ours in names.items():
        if name in options:
            value = options.pop(name)
            if options.setdefault(ours, value) != value:
                hint = f"give one of {name!r} and {ours!r}"
                raise OptionError(name, value, f"contradicts {ours!r}", hint)
    _translate_registry(options)
    _accept_defaults(options)
    if "format" in options:
        options["format"] = _FORMATS.get(options["format"], options["format"])
    arguments: dict[str, Any] = {}
    for name, shown in (("servers", "bootstrap.servers"), ("topic", "topic")):
        if not options.get(name):
            hint = f"add '{shown}' = '...' to the table {table}"
            raise OptionError(shown, None, "is missing for kafka", hint)
        arguments[name] = options.pop(name)
    topics = arguments["topic"].replace(";", ",").split(",")
    arguments["topic"] = [topic.strip() for topic in topics]
    return arguments


def _translate_registry(options: dict[str, str]) -> None:
    """Translate Flink's options for a schema registry and its user."""
    for name in _URLS:
        if name in options:
            options.setdefault("registry", options.pop(name))
    for name in _SOURCES:
        if (source := options.pop(name, "USER_INFO")) != "USER_INFO":
            hint = "give 'USER_INFO', or the user in the registry's address"
            raise OptionError(name, source, "isn't supported", hint)
    for name in _USERS:
        if name not in options:
            continue
        user = encode_user(options.pop(name))
        if "registry" not in options:
            raise OptionError(name, "…", "needs a registry", "add 'avro-confluent.url'")
        parts = urlsplit(options["registry"])
        host = parts.netloc.rpartition("@")[2]
        options["registry"] = urlunsplit(parts._replace(netloc=f"{user}@{host}"))


def _accept_defaults(options: dict[str, str]) -> None:
    """Accept options whose value is the behaviour here anyway, and refuse any other value."""
    for name in [*options]:
        plain = name.removeprefix("value.")
        option = name if name in _SINGLE_VALUED else plain
        if option in _SINGLE_VALUED:
            values, hint = _SINGLE_VALUED[option]
            if options[name].lower() not in {value.lower() for value in values}:
                raise OptionError(name, options[name], "isn't supported", hint)
            del options[name]
        elif name in _UNSUPPORTED or plain in _UNSUPPORTED:
            hint = _UNSUPPORTED.get(name) or _UNSUPPORTED[plain]
            raise OptionError(name, options[name], "isn't supported", hint)


def _parse_scan_options(options: dict[str, str], arguments: Mapping[str, Any]) -> str | None:
    """Return the starting position of Flink's scan options; ``None`` without them."""
    mode, millis, offsets = (options.pop(name, None) for name in _SCAN)
    wanted = {"timestamp": _SCAN[1], "specific-offsets": _SCAN[2]}
    for name, value, needs in ((_SCAN[1], millis, "timestamp"),
                               (_SCAN[2], offsets, "specific-offsets")):  # fmt: skip
        if value is not None and mode != needs:
            hint = f"add '{_SCAN[0]}' = '{needs}'"
            raise OptionError(name, value, f"doesn't fit {_SCAN[0]}={mode!r}", hint)
        if value is None and mode == needs:
            raise OptionError(_SCAN[0], mode, f"needs {name}", f"add '{name}' = '...'")
    if mode is None:
        return None
    if "starting" in options:
        raise OptionError(_SCAN[0], mode, "is given together with 'starting'", "give one of them")
    if millis is not None:
        return _parse_millis(millis)
    if offsets is not None:
        return _parse_offsets(offsets, arguments["topic"])
    if mode not in _MODES:
        hint = f"give one of {', '.join((*_MODES, *wanted))}"
        raise OptionError(_SCAN[0], mode, "isn't a mode", hint)
    return _MODES[mode]


def _parse_millis(millis: str) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=int(millis))).isoformat()
    except (ValueError, OverflowError):
        hint = "give milliseconds since 1970"
        raise OptionError(_SCAN[1], millis, "isn't a time", hint) from None


def _parse_offsets(text: str, topics: list[str]) -> str:
    """Convert offsets written as ``partition:0,offset:42;partition:1,offset:300`` to JSON."""
    offsets = {}
    try:
        for part in filter(None, text.split(";")):
            pair = dict(one.strip().split(":") for one in part.split(","))
            offsets[str(int(pair.pop("partition")))] = int(pair.pop("offset"))
            if pair:
                raise ValueError(part)
    except (ValueError, KeyError):
        hint = "give 'partition:0,offset:42;partition:1,offset:300'"
        raise OptionError(_SCAN[2], text, "can't be parsed", hint) from None
    if len(topics) != 1:
        hint = "give JSON: 'starting' = '{\"topic\": {\"0\": 42}}'"
        raise OptionError(_SCAN[2], text, "is ambiguous for several topics", hint)
    return json.dumps({topics[0]: offsets})


def _take(
    options: dict[str, str], arguments: dict[str, Any], parsers: Mapping[str, Callable[..., Any]]
) -> None:
    for name, read in parsers.items():
        if name in options:
            value = options.pop(name)
            arguments[name] = value if read is str else read(name, value)


def _parse_client_options(left: Mapping[str, str], more: tuple[str, ...]) -> dict[str, str]:
    """Return the remaining options, which are those of Kafka's clients and Spark's connector."""
    options = {}
    for name, value in left.items():
        plain = name.removeprefix("properties.")
        valid = (*more, *_SINGLE_VALUED, *_UNSUPPORTED, *_READING, "topic")
        refuse_unknown_name("option", plain, valid)
        if plain in valid:
            raise OptionError(name, value, "isn't an option of this table", "leave it out")
        ours = f"kafka.{plain}" if plain != name else name
        if ours in options:
            raise OptionError(name, "…", f"is also given as {ours!r}", "give one of them")
        options[ours] = value
    return options


def _parse_boolean(name: str, value: str) -> bool:
    if value.lower() not in BOOLEAN_TEXTS:
        raise OptionError(name, value, "is neither true nor false", "give 'true' or 'false'")
    return BOOLEAN_TEXTS[value.lower()]


def _parse_count(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise OptionError(name, value, "isn't a whole number", "give one such as 100000") from None
