"""Names of options for Kafka's readers and writers, and the nearest one to a wrong name.

A name that no client knows is refused: a client that ignores ``security.protocl`` connects in plain
text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache

from muntin.model.errors import OptionError

# Options of Spark's connector that are an argument of ``kafka`` here.
RENAMED = {
    "kafka.bootstrap.servers": "servers",
    "bootstrap.servers": "servers",
    "subscribe": "topic",
    "assign": "topic",
    "subscribePattern": "topic",
    "startingOffsets": "starting",
    "startingTimestamp": "starting",
    "startingOffsetsByTimestamp": "starting",
    "includeHeaders": "headers",
    "maxOffsetsPerTrigger": "per_batch",
}
# Options of Spark's connector that change no result; workers have their own patience and shards.
PLANNING = frozenset(
    ("minPartitions", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
     "fetchOffset.retryIntervalMs")
)  # fmt: skip
DATA_LOSS = "failOnDataLoss"
# Options that only Spark's connector has.
SPARK = frozenset(
    ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "groupIdPrefix",
     "maxRecordsPerPartition", "maxTriggerDelay", "minOffsetsPerTrigger",
     "startingOffsetsByTimestampStrategy")
)  # fmt: skip
# Options that a reader of ranges sets itself.
MANAGED_OPTIONS = {
    "auto.offset.reset": "give starting=",
    "auto.commit.enable": "give group=",
    "enable.auto.commit": "give group=",
    "enable.auto.offset.store": "give group=",
    "enable.partition.eof": "leave it out",
    "group.id": "give group=, to which offsets are committed",
}
# Java's names, with the equivalents in librdkafka.
JAVA_EQUIVALENTS = {
    "sasl.jaas.config": "'sasl.username' and 'sasl.password'",
    "ssl.truststore.location": "'ssl.ca.location', a PEM file",
    "ssl.truststore.password": "'ssl.ca.location', a PEM file",
    "ssl.truststore.certificates": "'ssl.ca.pem'",
    "ssl.truststore.type": "'ssl.ca.location', a PEM file",
    "ssl.keystore.location": "'ssl.certificate.location' and 'ssl.key.location', PEM files",
    "ssl.keystore.password": "'ssl.key.password'",
    "ssl.keystore.key": "'ssl.key.pem'",
    "ssl.keystore.type": "'ssl.key.location', a PEM file",
    "ssl.keystore.certificate.chain": "'ssl.certificate.pem'",
    "max.request.size": "'message.max.bytes'",
    "fetch.max.wait.ms": "'fetch.wait.max.ms'",
    "receive.buffer.bytes": "'socket.receive.buffer.bytes'",
    "send.buffer.bytes": "'socket.send.buffer.bytes'",
}
# More options that only Java's client has.
_JAVA_ONLY_NAMES = """
auto.include.jmx.reporter config.providers default.api.timeout.ms exclude.internal.topics
interceptor.classes metric.reporters metrics.num.samples metrics.recording.level
metrics.sample.window.ms request.timeout.ms sasl.client.callback.handler.class
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope.claim.name security.providers socket.connection.setup.timeout.max.ms
ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol
ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
"""
_JAVA_ONLY = frozenset(_JAVA_ONLY_NAMES.split())
JAVA = _JAVA_ONLY | JAVA_EQUIVALENTS.keys()
# Options that both clients have.
_BOTH_NAMES = """
allow.auto.create.topics check.crcs client.dns.lookup client.id client.rack
connections.max.idle.ms enable.metrics.push fetch.max.bytes fetch.min.bytes
group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms isolation.level
max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms
metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
partition.assignment.strategy reconnect.backoff.max.ms reconnect.backoff.ms
retry.backoff.max.ms retry.backoff.ms sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.mechanism
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.protocol
session.timeout.ms socket.connection.setup.timeout.ms ssl.cipher.suites
ssl.endpoint.identification.algorithm ssl.key.password
group.id auto.offset.reset enable.auto.commit
"""
_BOTH = frozenset(_BOTH_NAMES.split())
# Options that only librdkafka has. A newer one may know more, so unlisted names are checked by it.
_LIBRDKAFKA_ONLY_NAMES = """
acks api.version.fallback.ms api.version.request api.version.request.timeout.ms
auto.commit.enable auto.commit.interval.ms batch.num.messages batch.size
broker.address.family broker.address.ttl broker.version.fallback client.software.name
client.software.version compression.codec compression.level compression.type
coordinator.query.interval.ms debug delivery.timeout.ms enable.auto.offset.store
enable.idempotence enable.partition.eof enable.random.seed
enable.sasl.oauthbearer.unsecure.jwt enable.sparse.connections
enable.ssl.certificate.verification fetch.error.backoff.ms fetch.message.max.bytes
fetch.queue.backoff.ms fetch.wait.max.ms https.ca.location https.ca.pem
internal.termination.signal linger.ms log.connection.close log.queue log.thread.name
log_level max.in.flight max.in.flight.requests.per.connection message.copy.max.bytes
message.max.bytes message.send.max.retries message.timeout.ms metadata.broker.list
metadata.request.timeout.ms partitioner queue.buffering.backpressure.threshold
queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms
queued.max.messages.kbytes queued.min.messages queuing.strategy receive.message.max.bytes
reconnect.backoff.jitter.ms request.required.acks retries sasl.kerberos.keytab
sasl.kerberos.principal sasl.mechanisms sasl.oauthbearer.client.id
sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
sasl.oauthbearer.grant.type sasl.oauthbearer.method sasl.oauthbearer.scope sasl.password
sasl.username socket.keepalive.enable socket.max.fails socket.nagle.disable
socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location
ssl.certificate.pem ssl.crl.location ssl.curves.list ssl.engine.id ssl.engine.location
ssl.key.location ssl.key.pem ssl.providers ssl.sigalgs.list statistics.interval.ms
sticky.partitioning.linger.ms topic.blacklist topic.metadata.propagation.max.ms
topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
"""
_LIBRDKAFKA_ONLY = frozenset(_LIBRDKAFKA_ONLY_NAMES.split())
LIBRDKAFKA = _BOTH | _LIBRDKAFKA_ONLY
_CONNECTOR = PLANNING | SPARK | RENAMED.keys() | {DATA_LOSS}
_WORDS = re.compile(r"[^a-z0-9]+")


def is_librdkafkas(name: str) -> bool:
    """Return whether librdkafka has an option, by the list of its names or by asking it."""
    return name in LIBRDKAFKA or (name not in JAVA and _is_accepted(name))


def is_javas(name: str) -> bool:
    """Return whether Java's client has an option."""
    return name in JAVA or name in _BOTH


def is_known(name: str) -> bool:
    """Return whether any reader has an option; clients' names come without ``kafka.``."""
    return name in _CONNECTOR or is_javas(name) or is_librdkafkas(name)


def refuse_unknown_name(option: str, name: str, more: Collection[str] = ()) -> None:
    """Refuse an option that no client has and ``more`` doesn't list; name the nearest one."""
    plain = name.removeprefix("kafka.")
    if name in more or is_known(plain) or is_known(name):
        return
    near = nearest(plain, _CONNECTOR | JAVA | LIBRDKAFKA | {*more})
    hint = f"did you mean {near!r}?" if near else "leave it out"
    problem = "isn't an option of Kafka's clients or of Spark's connector"
    raise OptionError(option, name, problem, hint)


def nearest(name: str, valid: Collection[str]) -> str | None:
    """Return the valid name that is most like a wrong one; ``None`` if none is like it.

    Example:
        >>> nearest("securityProtocol", ["security.protocol", "sasl.username"])
        'security.protocol'
    """
    by_letters = {_letters(one): one for one in sorted(valid)}
    near = get_close_matches(_letters(name), by_letters, 1, 0.7)
    return by_letters[near[0]] if near else None


def _letters(name: str) -> str:
    """Return a name without the separators between its words, in which names often differ."""
    return _WORDS.sub("", name.lower())


@lru_cache(maxsize=1000)
def _is_accepted(name: str) -> bool:
    """Return whether librdkafka takes an unlisted option, without a connection."""
    try:
        from confluent_kafka import Consumer, KafkaException
    except ImportError:
        return False
    # Names with an underscore are arguments of the Python client, among them functions.
    if "." not in name or "_" in name:
        return False
    try:
        Consumer({"group.id": "muntin", "log_level": "2", name: "1"}).close()
    except KafkaException as error:
        return "No such configuration property" not in error.args[0].str()
    except (TypeError, ValueError):
        return False
    return True
