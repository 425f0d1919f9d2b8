"""A Kafka broker for tests (KRaft, one node), on loopback, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from tests.services.machine import SERVICES, free_port, listens, missing, wait_until

BROKER, CONNECTOR = SERVICES / "kafka", SERVICES / "kafka-connector"
# Kafka's default for the largest message, in bytes.
LARGEST = 1_048_588
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},MISLED://127.0.0.1:{misled},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},MISLED://127.0.0.1:{nobody}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,MISLED:PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
log.cleaner.backoff.ms=50
log.retention.ms=-1
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


class Kafka:
    """A broker that is started, killed and started again.

    Attributes:
        servers: Its address.
        misled: A second address, where it advertises a port that nobody listens on.
        nobody: That port.
    """

    def __init__(self) -> None:
        if not any(BROKER.glob("kafka_2.13-*.jar")) or not any(CONNECTOR.glob("*.jar")):
            missing("Kafka")
        self.folder = Path(tempfile.mkdtemp(prefix="muntin-kafka-"))
        self.port = free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self.log = self.folder / "log"
        self._topics = 0
        misled, self.nobody = free_port(), free_port()
        self.misled = f"127.0.0.1:{misled}"
        settings = _SETTINGS.format(
            port=self.port, misled=misled, nobody=self.nobody, controller=free_port(),
            folder=self.folder,
        )  # fmt: skip
        (self.folder / "settings").write_text(settings)
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c"]
        subprocess.run(self._java(*tool, "settings"), check=True, capture_output=True,
                       cwd=self.folder, timeout=120)  # fmt: skip
        self.start()

    def _java(self, *arguments: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else "java"
        small = ["-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [java, *small, "-cp", f"{BROKER}/*", *arguments]

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self._java("kafka.Kafka", "settings"), stdout=log, stderr=log, cwd=self.folder
            )
        wait_until(lambda: listens(self.port), self.process, self.log)
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        self.admin.list_topics(timeout=60)

    def kill(self) -> None:
        """Kill the broker, as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=60)

    def remove(self) -> None:
        """Kill the broker, and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def topic(self, partitions: int = 2, largest: int = LARGEST, **config: str) -> str:
        """Create a topic whose messages have at most so many bytes, and return its name.

        The names in ``config`` have underscores for dots.
        """
        self._topics += 1
        name = f"topic-{self._topics}"
        settings = {name.replace("_", "."): value for name, value in config.items()}
        settings["max.message.bytes"] = str(largest)
        new = NewTopic(name, partitions, 1, config=settings)
        for creation in self.admin.create_topics([new]).values():
            creation.result(timeout=60)
        return name

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Allow everybody these operations alone on a topic or a group; without any, all."""
        at = kind, name, ResourcePatternType.LITERAL
        of_all = AclBindingFilter(*at, None, None, AclOperation.ANY, AclPermissionType.ANY)
        for reply in self.admin.delete_acls([of_all]).values():
            reply.result(timeout=60)
        user = "User:*", "*"
        acls = [
            AclBinding(*at, *user, operation, AclPermissionType.ALLOW) for operation in operations
        ]
        for reply in self.admin.create_acls(acls).values() if acls else ():
            reply.result(timeout=60)

    def start_later(self, seconds: float) -> None:
        """Start the broker after some seconds, in the background."""
        threading.Timer(seconds, self.start).start()

    def send_at(self, topic: str, messages: Iterable[tuple[int, int]]) -> None:
        """Send messages of given partitions and times."""
        producer = Producer({"bootstrap.servers": self.servers})
        for partition, at in messages:
            producer.produce(topic, b"x", None, partition, timestamp=at)
        assert producer.flush(60) == 0

    def create_again(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic, and create another one of its name."""
        self.delete(topic)
        for creation in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            creation.result(timeout=60)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        for deletion in self.admin.delete_topics([topic], operation_timeout=60).values():
            deletion.result(timeout=60)
        deadline = time.monotonic() + 60
        while topic in self.admin.list_topics(timeout=60).topics:
            assert time.monotonic() < deadline, f"{topic} isn't gone"
            time.sleep(0.1)

    def send(self, topic: str, messages: Iterable[tuple[Any, ...]], largest: int = LARGEST) -> None:
        """Send messages: partition, key, value, and headers where there are any."""
        settings = {"bootstrap.servers": self.servers, "message.max.bytes": largest}
        producer = Producer({**settings, "enable.idempotence": True})
        failed: list[Any] = []

        def note_failure(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)

        for partition, key, value, *headers in messages:
            options = {"headers": headers[0]} if headers else {}
            while True:
                try:
                    producer.produce(
                        topic, value, key, partition, on_delivery=note_failure, **options
                    )
                    break
                except BufferError:  # the producer's buffer is full
                    producer.poll(0.1)
            producer.poll(0)
        # Messages that couldn't be delivered aren't in the queue any more either.
        assert producer.flush(60) == 0
        assert not failed

    def read(self, topic: str) -> list[Message]:
        """Read all messages of a topic, partition by partition."""
        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "group.id": "reader"}
        consumer = Consumer({**settings, "enable.partition.eof": True})
        partitions = self.admin.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        messages, ended, deadline = [], set(), time.monotonic() + 60
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, f"{topic} can't be read"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        consumer.close()
        return sorted(messages, key=lambda m: (m.partition(), m.offset()))
