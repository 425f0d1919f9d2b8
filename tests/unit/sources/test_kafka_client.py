"""Tests of the options of Kafka's clients: accepted, left to Spark's connector, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.model.errors import OptionError
from muntin.sinks.kafka import to_kafka
from muntin.sources.kafka_client import (
    needs_java,
    of_connector,
    of_librdkafka,
    refuse_librdkafkas,
    refuse_owned,
    refuse_unknown,
)
from muntin.sources.kafka_options import JAVA, LIBRDKAFKA, SPARK

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("security.protocl", "security.protocol"),
        ("security_protocol", "security.protocol"),
        ("kafka.security.protocl", "security.protocol"),
        ("securityProtocol", "security.protocol"),
        ("Security.Protocol", "security.protocol"),
        ("SECURITY_PROTOCOL", "security.protocol"),
        ("sasl.pasword", "sasl.password"),
        ("sasl.usrname", "sasl.username"),
        ("sasl.mechanizm", "sasl.mechanism"),
        ("ssl.ca.loaction", "ssl.ca.location"),
        ("ssl.endpoint.identification.algorithim", "ssl.endpoint.identification.algorithm"),
        ("enable.ssl.certificate.verificaton", "enable.ssl.certificate.verification"),
        ("failOnDataLos", "failOnDataLoss"),
        ("ssl.truststore.locaton", "ssl.truststore.location"),
        ("minPartition", "minPartitions"),
    ],
)
def test_a_mistyped_name_is_refused_with_the_nearest_one(name: str, near: str) -> None:
    for read in (of_connector, lambda options: of_librdkafka("h:1", options)):
        with pytest.raises(OptionError, match=rf"did you mean '{near}'\?"):
            read({name: "SASL_SSL", "sasl.username": "u"})


def test_a_name_that_is_like_none_is_refused() -> None:
    with pytest.raises(OptionError, match=r"options='colour' isn't an option of Kafka's.*leave it"):
        of_connector({"colour": "red"})


def test_what_is_an_argument_is_no_option() -> None:
    for name, argument in [
        ("kafka.bootstrap.servers", "servers"), ("subscribe", "topic"), ("assign", "topic"),
        ("subscribePattern", "topic"), ("startingOffsets", "starting"),
        ("startingTimestamp", "starting"), ("maxOffsetsPerTrigger", "per_batch"),
        ("includeHeaders", "headers"),
    ]:  # fmt: skip
        with pytest.raises(OptionError, match=f"give it as {argument}="):
            of_connector({name: "x"})


def test_what_spark_or_java_alone_know_is_a_reason() -> None:
    assert needs_java({**SASL, "failOnDataLoss": "false", "minPartitions": "3"}) is None
    assert (
        needs_java({"groupIdPrefix": "x"})
        == "options='groupIdPrefix' is an option of Spark's connector"
    )
    for name in ("sasl.jaas.config", "kafka.ssl.truststore.location", "default.api.timeout.ms"):
        assert needs_java({name: "x"}) == f"options='{name}' is an option of Java's client"
    assert "Kerberos" in str(needs_java({"kafka.sasl.mechanism": "GSSAPI"}))
    assert "Kerberos" in str(needs_java({"security.protocol": "SASL_PLAINTEXT"}))


def test_what_the_connector_would_ignore_is_refused() -> None:
    refuse_librdkafkas({"kafka.security.protocol": "SSL", "minPartitions": "1"}, "x")
    with pytest.raises(
        OptionError, match=r"sasl\.username' is an option of librdkafka.*since reader='spark'"
    ):
        refuse_librdkafkas({"kafka.sasl.username": "u"}, "reader='spark'")
    with pytest.raises(OptionError, match=r"give 'ssl\.truststore\.location'"):
        refuse_librdkafkas({"kafka.ssl.ca.location": "/ca.pem"}, "reader='spark'")


def test_credentials_that_nothing_is_done_with_are_refused() -> None:
    for options in (
        {"sasl.username": "u"},
        {"sasl.username": "u", "security.protocol": "PLAINTEXT"},
        {"sasl.username": "u", "security.protocol": "ssl"},
        {"kafka.ssl.ca.location": "/ca.pem"},
        {"ssl.ca.location": "/ca.pem", "security.protocol": "SASL_PLAINTEXT"},
        {"sasl.jaas.config": "x"},
    ):
        with pytest.raises(OptionError, match=r"has no effect with security\.protocol="):
            of_connector(options)
    with pytest.raises(OptionError, match=r"without 'sasl\.mechanism'.*add 'sasl.mechanism'"):
        of_connector({"security.protocol": "SASL_SSL", "sasl.username": "u"})
    of_connector({"ssl.ca.location": "/ca.pem", "security.protocol": "ssl"})
    of_connector({**SASL, "ssl.ca.location": "/ca.pem"})


def test_what_a_reader_of_ranges_sets_itself_is_refused() -> None:
    for name, hint in [
        ("auto.offset.reset", "starting="), ("enable.auto.commit", "group="),
        ("kafka.group.id", "group="), ("enable.partition.eof", "leave it out"),
    ]:  # fmt: skip
        with pytest.raises(OptionError, match=f"is set by the reader itself; .*{hint}"):
            refuse_owned({name: "x"})


def test_loss_is_allowed_in_a_word_that_is_one() -> None:
    assert of_librdkafka("h:1", {"failOnDataLoss": "FALSE"})[1]
    assert not of_librdkafka("h:1", {"failOnDataLoss": "true"})[1]
    with pytest.raises(OptionError, match="failOnDataLoss='no' is neither true nor false"):
        of_connector({"failOnDataLoss": "no"})


def test_the_lists_are_what_librdkafka_says() -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    for name in LIBRDKAFKA - {"log_level"}:
        message = ""
        try:
            confluent_kafka.Consumer({"group.id": "x", name: "~~", "log_level": "2"})
        except confluent_kafka.KafkaException as error:
            message = error.args[0].str()
        assert "No such configuration property" not in message, name
    assert not (JAVA & LIBRDKAFKA)
    assert not (SPARK & LIBRDKAFKA)


def test_options_are_of_librdkafka() -> None:
    options = {f"kafka.{name}": value for name, value in SASL.items()} | {"minPartitions": "3"}
    assert of_librdkafka("h:1", options) == ({"bootstrap.servers": "h:1", **SASL}, False)
    unverified = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    settings, _ = of_librdkafka("h:1", unverified)
    assert settings["ssl.endpoint.identification.algorithm"] == "none"
    with pytest.raises(OptionError, match=r"sasl\.username"):
        of_librdkafka("h:1", {"kafka.sasl.jaas.config": "secret-value"})
    with pytest.raises(OptionError, match="reader='spark'"):
        of_librdkafka("h:1", {"groupIdPrefix": "a"})


def test_librdkafka_says_which_settings_it_takes() -> None:
    pytest.importorskip("confluent_kafka")
    refuse_unknown({"bootstrap.servers": "h:1", "isolation.level": "read_committed"})
    with pytest.raises(OptionError, match=r"SASL_SLL"):
        refuse_unknown({"bootstrap.servers": "h:1", "security.protocol": "SASL_SLL"})


@pytest.mark.parametrize("name", ["transactional.id", "compression.type", "linger.ms", "acks"])
def test_what_a_consumer_would_ignore_is_refused(name: str) -> None:
    pytest.importorskip("confluent_kafka")
    client = {"bootstrap.servers": "h:1", "client.id": "me", name: "1"}
    client |= {"compression.type": "lz4"} if name == "compression.type" else {}
    with pytest.raises(OptionError, match=rf"'{name}'.* have no effect: \S+ is of producers"):
        refuse_unknown(client)


@pytest.mark.parametrize("name", ["fetch.min.bytes", "session.timeout.ms", "transactional.id"])
def test_what_a_producer_would_ignore_is_refused(name: str) -> None:
    pytest.importorskip("confluent_kafka")
    to_kafka("h:1", "t", options={"linger.ms": "5", "client.id": "me"})
    with pytest.raises(OptionError, match=rf"'{name}'\]? (have no effect|begins transactions)"):
        to_kafka("h:1", "t", options={name: "10"})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("security.protocol", "kafka.security.protocol"),
        ("kafka.security.protocol", "security.protocol"),
        ("sasl.mechanism", "sasl.mechanisms"),
        ("kafka.sasl.mechanisms", "sasl.mechanism"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(first: str, second: str) -> None:
    for read in (of_connector, lambda options: of_librdkafka("h:1", options)):
        with pytest.raises(OptionError, match=f"options='{second}' is also given as '{first}'"):
            read({first: "SASL_SSL", second: "PLAINTEXT"})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({1: "x"}, "options=1 isn't the name of an option"),
        (["security.protocol"], "options='list' isn't a mapping"),
        ({"security.protocol": None}, "options='security.protocol' is NoneType, not text"),
        ({"sasl.password": b"x"}, "options='sasl.password' is bytes, not text"),
    ],
)
def test_what_isnt_an_option_is_refused(options: Any, problem: str) -> None:
    for read in (of_connector, lambda options: of_librdkafka("h:1", options)):
        with pytest.raises(OptionError, match=problem):
            read(options)
