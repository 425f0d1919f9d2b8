"""Tests of the options of a topic's table: accepted, or refused by name."""

from __future__ import annotations

import pytest

from muntin.model.errors import OptionError
from muntin.sources.kafka_tables import reading_arguments, writing_arguments

FLINK = {"topic": "orders", "properties.bootstrap.servers": "h:1"}


def test_flinks_client_options_are_the_clients() -> None:
    secure = {
        "properties.security.protocol": "SASL_SSL",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.username": "u",
        "properties.group.id": "billing",
    }
    arguments = reading_arguments("orders", FLINK | secure)
    assert arguments["group"] == "billing"
    assert arguments["options"] == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "u",
    }


@pytest.mark.parametrize(
    ("options", "starting"),
    [
        ({"scan.startup.mode": "earliest-offset"}, "earliest"),
        ({"scan.startup.mode": "latest-offset"}, "latest"),
        ({"scan.startup.mode": "group-offsets"}, "group"),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1767225600000"},
         "2026-01-01T00:00:00+00:00"),
        ({"scan.startup.mode": "specific-offsets",
          "scan.startup.specific-offsets": "partition:0,offset:42;partition:1,offset:300"},
         '{"orders": {"0": 42, "1": 300}}'),
        ({"starting": "latest"}, "latest"),
        ({"startingOffsets": "latest"}, "latest"),
    ],
)  # fmt: skip
def test_where_to_begin(options: dict[str, str], starting: str) -> None:
    assert reading_arguments("orders", FLINK | options)["starting"] == starting


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"scan.startup.mode": "newest"}, "give one of earliest-offset, latest-offset, group-"),
        ({"scan.startup.mode": "timestamp"}, r"needs scan\.startup\.timestamp-millis"),
        ({"scan.startup.mode": "specific-offsets"}, r"needs scan\.startup\.specific-offsets"),
        ({"scan.startup.timestamp-millis": "5"}, "add 'scan.startup.mode' = 'timestamp'"),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "soon"}, "a time"),
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "0:5"},
         "give 'partition:0,offset:42"),
        ({"scan.startup.mode": "earliest-offset", "starting": "latest"}, "give one of them"),
        ({"scan.startup.modus": "latest-offset"}, r"did you mean 'scan\.startup\.mode'"),
        ({"properties.security.protocl": "SSL"}, r"did you mean 'security\.protocol'"),
        ({"kafka.security.protocol": "SSL", "properties.security.protocol": "PLAINTEXT"},
         r"properties\.security\.protocol='…' is also given as 'kafka\.security\.protocol'"),
        ({"propertis.security.protocol": "SSL"}, "isn't an option"),
        ({"json.ignore-parse-errors": "false"}, "rejected, counted and kept"),
        ({"json.ignore-parse-error": "true"}, r"did you mean 'json\.ignore-parse-errors'"),
        ({"json.fail-on-missing-field": "true"}, "is NULL"),
        ({"json.timestamp-format.standard": "RFC"}, "give 'SQL' or 'ISO-8601'"),
        ({"csv.field-delimiter": ";"}, "separated by commas"),
        ({"key.format": "json"}, "column key"),
        ({"value.fields-include": "EXCEPT_KEY"}, "columns are of the value"),
        ({"topic-pattern": "o.*"}, "name the topics"),
        ({"scan.bounded.mode": "latest-offset"}, "batch mode"),
        ({"scan.parallelism": "4"}, "shared out"),
        ({"value.format": "csv", "format": "json"}, "contradicts 'format'"),
        ({"value.fromat": "csv"}, "did you mean 'value.format'|did you mean 'format'"),
        ({"headers": "yes"}, "headers='yes' is neither true nor false"),
        ({"per_batch": "many"}, "per_batch='many' isn't a whole number"),
        ({"avro-confluent.basic-auth.credentials-source": "URL"}, "USER_INFO"),
        ({"sink.delivery-guarantee": "exactly-once"}, "at least once"),
        ({"reeader": "spark"}, "did you mean 'reader'"),
    ],
)  # fmt: skip
def test_what_isnt_done_is_refused_by_name(options: dict[str, str], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        reading_arguments("orders", FLINK | options)


def test_options_that_say_what_is_so_are_taken() -> None:
    defaults = {
        "value.format": "json",
        "json.ignore-parse-errors": "true",
        "json.fail-on-missing-field": "false",
        "json.timestamp-format.standard": "ISO-8601",
        "value.fields-include": "ALL",
        "scan.bounded.mode": "unbounded",
    }
    arguments = reading_arguments("orders", FLINK | defaults)
    assert arguments == {"servers": "h:1", "topic": ["orders"], "format": "json", "options": {}}


def test_flinks_registry_is_one_with_its_user() -> None:
    options = {
        "value.format": "avro-confluent",
        "value.avro-confluent.url": "https://registry:8081",
        "value.avro-confluent.basic-auth.credentials-source": "USER_INFO",
        "value.avro-confluent.basic-auth.user-info": "me:p/w",
    }
    arguments = reading_arguments("orders", FLINK | options)
    assert (arguments["format"], arguments["registry"]) == (
        "avro",
        "https://me:p%2Fw@registry:8081",
    )


def test_topics_are_several_with_commas_or_semicolons() -> None:
    for text in ("a,b", "a;b", "a; b"):
        assert reading_arguments("t", {**FLINK, "topic": text})["topic"] == ["a", "b"]
    with pytest.raises(OptionError, match="add 'topic'"):
        reading_arguments("t", {"bootstrap.servers": "h:1"})
    with pytest.raises(OptionError, match=r"add 'bootstrap\.servers'"):
        reading_arguments("t", {"topic": "a"})


def test_what_writes_takes_the_same_names() -> None:
    arguments = writing_arguments("totals", {
        **FLINK, "key.format": "json", "key.fields": "shop;day", "value.format": "json",
        "properties.linger.ms": "20", "sink.delivery-guarantee": "at-least-once",
    })  # fmt: skip
    assert arguments == {
        "servers": "h:1", "topic": "orders", "format": "json", "key": "shop,day",
        "options": {"kafka.linger.ms": "20"},
    }  # fmt: skip
    for name in ("scan.startup.mode", "sink.parallelism", "topic-pattern", "starting", "headers"):
        with pytest.raises(OptionError, match=name.replace(".", r"\.")):
            writing_arguments("totals", {**FLINK, name: "x"})
