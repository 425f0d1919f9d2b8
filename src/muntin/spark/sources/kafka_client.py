"""Options of Kafka's clients, as librdkafka takes them."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.model.errors import OptionError

_LOSS = "failOnDataLoss"
# Options of Spark's connector that say nothing to a worker.
_PLANNING = ("minPartitions", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries")
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
}


def of_librdkafka(servers: str, options: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Settings of librdkafka, and whether to go on where messages were deleted unread.

    Args:
        servers: ``host:port``, several with commas.
        options: What the user gave; names with a dot are the client's, with or without ``kafka.``.

    Raises:
        OptionError: When one is Java's own, or the connector's.
    """
    found, lossy = {"bootstrap.servers": servers}, False
    for name, value in options.items():
        plain = name.removeprefix("kafka.")
        if plain in _JAVA:
            hint = f"give {_JAVA[plain]}"
            raise OptionError("options", name, "is for Java's client", hint)
        if name == _LOSS:
            lossy = str(value).lower() == "false"
        elif "." in plain:
            found[plain] = str(value)
        elif name not in _PLANNING:
            hint = "leave it out, or read with reader='spark'"
            raise OptionError("options", name, "is for Spark's connector", hint)
    return found, lossy
