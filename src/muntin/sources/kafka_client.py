"""Options of Kafka's clients, converted for librdkafka and for Spark's connector."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from muntin.model.errors import OptionError
from muntin.model.references import resolve, resolve_all
from muntin.model.secrets import has_secret
from muntin.sources.kafka_options import (
    DATA_LOSS,
    JAVA_EQUIVALENTS,
    MANAGED_OPTIONS,
    PLANNING,
    RENAMED,
    SPARK,
    is_javas,
    is_librdkafkas,
    refuse_unknown_name,
)
from muntin.sources.text_values import BOOLEAN_TEXTS

_PROTOCOL = "security.protocol"
_PROTOCOLS = ("plaintext", "sasl_plaintext", "ssl", "sasl_ssl")
_MECHANISMS = {"sasl.mechanism", "sasl.mechanisms"}
_IGNORED = re.compile(r"property (\S+) is a (producer|consumer) property and will be ignored")


def of_connector(options: Mapping[str, str]) -> dict[str, str]:
    """Return options for Spark's connector, whose client options begin with ``kafka.``."""
    named = {}
    check_options(options)
    options = _resolve_plain_options(options)
    for name, value in options.items():
        if name in RENAMED:
            hint = f"give it as {RENAMED[name]}="
            raise OptionError("options", name, "can't be given here", hint)
        refuse_unknown_name("options", name)
        is_connectors = "." not in name or name in PLANNING or name.startswith("kafka.")
        named[name if is_connectors else f"kafka.{name}"] = str(value)
    _is_lossy(named)
    refuse_idle_credentials(named)
    return named


def of_librdkafka(
    servers: str, options: Mapping[str, str], instead: str = "read with reader='spark'"
) -> tuple[dict[str, str], bool]:
    """Return the settings of librdkafka, and whether to continue if unread messages were deleted.

    Options with a dot are the client's, with or without ``kafka.``. An option that isn't
    librdkafka's is refused; ``instead`` says what else can be done about Spark's.
    """
    settings = {"bootstrap.servers": servers}
    check_options(options)
    options = _resolve_plain_options(options)
    for name, value in options.items():
        plain = name.removeprefix("kafka.")
        if name == DATA_LOSS or name in PLANNING:
            continue
        if plain in JAVA_EQUIVALENTS:
            hint = f"give {JAVA_EQUIVALENTS[plain]}"
            raise OptionError("options", name, "is an option of Java's client", hint)
        if name in SPARK or name in RENAMED:
            hint = f"leave it out, or {instead}"
            raise OptionError("options", name, "is an option of Spark's connector", hint)
        refuse_unknown_name("options", name)
        if not is_librdkafkas(plain):
            hint = f"leave it out, or {instead}"
            problem = "is an option of Java's client, which librdkafka lacks"
            raise OptionError("options", name, problem, hint)
        # An empty text turns off the check of the certificate's host in Java's client.
        is_empty = plain == "ssl.endpoint.identification.algorithm" and not str(value)
        settings[plain] = "none" if is_empty else str(value)
    refuse_idle_credentials(options)
    return settings, _is_lossy(options)


def check_options(options: object) -> None:
    """Refuse options that aren't names and values of text, numbers or booleans."""
    if not isinstance(options, Mapping):
        hint = "give a dict: {'security.protocol': 'SASL_SSL', …}"
        raise OptionError("options", type(options).__name__, "isn't a mapping", hint)
    for name, value in options.items():
        if not isinstance(name, str):
            raise OptionError("options", name, "isn't the name of an option", "give text")
        if not isinstance(value, str | int | float):
            problem = f"is {type(value).__name__}, not text"
            raise OptionError("options", name, problem, "give text, or leave it out")


def needs_java(options: Mapping[str, str]) -> str | None:
    """Return why options can be read by Spark's connector only; ``None`` if they needn't be.

    Example:
        >>> needs_java({"groupIdPrefix": "mine"})
        "options='groupIdPrefix' is an option of Spark's connector"
        >>> needs_java({"kafka.sasl.jaas.config": "…"})
        "options='kafka.sasl.jaas.config' is an option of Java's client"
    """
    for name, value in options.items():
        plain = name.removeprefix("kafka.")
        if name in SPARK:
            return f"options={name!r} is an option of Spark's connector"
        if is_javas(plain) and not is_librdkafkas(plain):
            return f"options={name!r} is an option of Java's client"
        if plain in _MECHANISMS and str(value).upper() == "GSSAPI":
            return f"options={name!r} is Kerberos, which librdkafka is built without"
    plain_options = _strip_prefixes(options)
    _refuse_unknown_protocol(plain_options)
    if _protocol_of(plain_options).startswith("sasl_") and not plain_options.keys() & _MECHANISMS:
        return f"options={_PROTOCOL!r} without 'sasl.mechanism' is Kerberos, which librdkafka lacks"
    return None


def refuse_librdkafkas(options: Mapping[str, str], reason: str) -> None:
    """Refuse options of librdkafka, which Spark's connector, used for a reason, would ignore."""
    for name in options:
        plain = name.removeprefix("kafka.")
        if "." in plain and name not in PLANNING and not is_javas(plain):
            java = next((j for j, ours in JAVA_EQUIVALENTS.items() if f"'{plain}'" in ours), None)
            hint = f"give {java!r}" if java else "leave it out"
            problem = f"is an option of librdkafka, but Spark's connector reads, since {reason}"
            raise OptionError("options", name, problem, hint)


def refuse_owned(options: Mapping[str, str]) -> None:
    """Refuse options that a reader of ranges sets itself."""
    for name in options:
        hint = MANAGED_OPTIONS.get(name.removeprefix("kafka."))
        if hint is not None:
            raise OptionError("options", name, "is set by the reader itself", hint)


def refuse_idle_credentials(options: Mapping[str, str]) -> None:
    """Refuse credentials and certificates that the protocol doesn't use."""
    plain = _strip_prefixes(options)
    _refuse_unknown_protocol(plain)
    protocol = _protocol_of(plain)
    if "sasl.username" in plain and protocol.startswith("sasl_") and not plain.keys() & _MECHANISMS:
        problem = "is without 'sasl.mechanism', whose default is Kerberos"
        hint = "add 'sasl.mechanism': 'PLAIN' (or 'SCRAM-SHA-512')"
        raise OptionError("options", "sasl.username", problem, hint)
    needed = {"sasl.": ("sasl_plaintext", "sasl_ssl"), "ssl.": ("ssl", "sasl_ssl")}
    for name in plain:
        wanted = needed.get(name[: name.find(".") + 1], ())
        if wanted and protocol not in wanted:
            problem = f"has no effect with {_PROTOCOL}={protocol.upper()}"
            hint = f"add '{_PROTOCOL}': '{wanted[-1].upper()}' (or {wanted[0].upper()!r})"
            raise OptionError("options", name, problem, hint)


def _resolve_plain_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options whose references are replaced, except those of secrets."""
    names: dict[str, str] = {}
    for name in options:
        plain = name.removeprefix("kafka.").replace("sasl.mechanisms", "sasl.mechanism")
        if plain in names:
            raise OptionError("options", name, f"is also given as {names[plain]!r}", "give one")
        names[plain] = name
    return {
        name: str(value) if has_secret(name, str(value)) else resolve(name, str(value))
        for name, value in options.items()
    }


def _resolve_if_possible(client: Mapping[str, str]) -> dict[str, str]:
    """Return settings to check; this process may lack the secrets of those that connect."""
    try:
        return resolve_all(client)
    except OptionError:
        return {name: value for name, value in client.items() if not name.endswith(".pem")}


def _strip_prefixes(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by the names that clients have for them."""
    return {name.removeprefix("kafka."): str(value) for name, value in options.items()}


def _protocol_of(options: Mapping[str, str]) -> str:
    return options.get(_PROTOCOL, "plaintext").lower()


def _refuse_unknown_protocol(options: Mapping[str, str]) -> None:
    if _protocol_of(options) not in _PROTOCOLS:
        hint = f"give one of {', '.join(_PROTOCOLS).upper()}"
        raise OptionError(_PROTOCOL, options[_PROTOCOL], "isn't a protocol of Kafka", hint)


def refuse_unknown(
    client: Mapping[str, str],
    *,
    sends: bool = False,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Let librdkafka check the settings of a consumer or producer, without a connection.

    Raises:
        OptionError: When it doesn't have a setting, or not with this value, or would ignore it.
    """
    from confluent_kafka import Consumer, KafkaException, Producer

    settings = _resolve_if_possible(client)
    del settings["bootstrap.servers"]
    warnings = _Warnings()
    logger = logging.Logger("muntin.kafka.options")
    logger.addHandler(warnings)
    # Its level decides whether librdkafka says what it ignores.
    arguments: dict[str, Any] = {**defaults, **settings, "log_level": "4", "logger": logger}
    hint = "leave out what it names" + ("" if sends else ", or read with reader='spark'")
    try:
        if sends:
            Producer(arguments).poll(0)
        else:
            consumer = Consumer({"group.id": "muntin", **arguments})
            consumer.poll(0)
            consumer.close()
    except KafkaException as error:
        problem = f"aren't accepted by librdkafka: {error.args[0].str()}"
        raise OptionError("options", sorted(settings), problem, hint) from error
    for text in warnings.ignored:
        raise OptionError("options", sorted(settings), f"have no effect: {text}", "leave it out")


class _Warnings(logging.Handler):
    """Collects what librdkafka says of settings that it ignores."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        ignored = _IGNORED.search(record.getMessage())
        if ignored is not None:
            self.ignored.append(f"{ignored[1]} is of {ignored[2]}s")


def _is_lossy(options: Mapping[str, str]) -> bool:
    """Return whether to continue if messages were deleted before they were read."""
    value = str(options.get(DATA_LOSS, "true")).lower()
    if value not in BOOLEAN_TEXTS:
        hint = "give 'true' or 'false'"
        raise OptionError(DATA_LOSS, options[DATA_LOSS], "is neither true nor false", hint)
    return not BOOLEAN_TEXTS[value]
