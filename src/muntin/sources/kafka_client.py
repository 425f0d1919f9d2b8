"""Options of Kafka's clients, as librdkafka takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muntin.model.errors import OptionError

_LOSS = "failOnDataLoss"
# Options of Spark's connector that change no result: workers have their own patience and shards.
_PLANNING = (
    "minPartitions",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
# Java's way of saying it, and librdkafka's.
_JAVA = {
    "sasl.jaas.config": "'sasl.username' and 'sasl.password'",
    "ssl.truststore.location": "'ssl.ca.location', a PEM file",
    "ssl.truststore.password": "'ssl.ca.location', a PEM file",
    "ssl.keystore.location": "'ssl.certificate.location' and 'ssl.key.location', PEM files",
    "ssl.keystore.password": "'ssl.key.password'",
    "ssl.keystore.key": "'ssl.key.pem'",
    "ssl.keystore.certificate.chain": "'ssl.certificate.pem'",
    "ssl.truststore.certificates": "'ssl.ca.pem'",
    "max.request.size": "'message.max.bytes'",
}


def of_connector(options: Mapping[str, str]) -> dict[str, str]:
    """Options as Spark's connector takes them: those of Kafka's clients begin with ``kafka.``."""
    return {
        name if "." not in name or name in _PLANNING or name.startswith("kafka.")
        else f"kafka.{name}": value
        for name, value in options.items()
    }  # fmt: skip


def of_librdkafka(
    servers: str, options: Mapping[str, str], instead: str = "read with reader='spark'"
) -> tuple[dict[str, str], bool]:
    """Settings of librdkafka, and whether to go on where messages were deleted unread.

    Args:
        servers: ``host:port``, several with commas.
        options: What the user gave; names with a dot are the client's, with or without ``kafka.``.
        instead: What else can be done about an option of Spark's connector.
    """
    found, lossy = {"bootstrap.servers": servers}, False
    for name, value in options.items():
        plain = name.removeprefix("kafka.")
        if plain in _JAVA:
            hint = f"give {_JAVA[plain]}"
            raise OptionError("options", name, "is for Java's client", hint)
        if name == _LOSS:
            lossy = str(value).lower() == "false"
        elif name in _PLANNING:
            continue
        elif "." in plain:
            found[plain] = str(value)
        else:
            hint = f"leave it out, or {instead}"
            raise OptionError("options", name, "is for Spark's connector", hint)
    return found, lossy


def refuse_unknown(client: Mapping[str, str], *, sends: bool = False) -> None:
    """Let librdkafka itself look at settings of what reads or sends, without a connection."""
    from confluent_kafka import Consumer, KafkaException, Producer

    settings: dict[str, Any] = {"log_level": "2", **client}
    del settings["bootstrap.servers"]
    try:
        if sends:
            Producer(settings)
        else:
            Consumer({"group.id": "muntin", **settings}).close()
    except KafkaException as error:
        hint = "leave out what it names" + ("" if sends else ", or read with reader='spark'")
        problem = f"aren't librdkafka's: {error.args[0].str()}"
        raise OptionError("options", sorted(settings), problem, hint) from error
