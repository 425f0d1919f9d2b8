"""Tests of topics in a process that can't import Spark, and of the options of a topic."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest
from tests.services.kafka import Kafka

import muntin as mt
from muntin.sources import kafka

WITHOUT_SPARK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import muntin as mt

servers, source, target = sys.argv[1:]
clicks = mt.kafka(servers, source, columns="page string, at timestamp")
views = mt.windowed(clicks, key="page", time="at", max_ahead=None).tumbling("1 minute")
query = views.early(each=True).agg(n=mt.count()).start(
    checkpoint=None, results=mt.to_kafka(servers, target), available_now=True
)
assert query.await_end(60)
print(query.progress.counts["counted"])
"""


def test_topics_go_to_topics_where_spark_cant_be_imported(broker: Kafka) -> None:
    source, target = broker.topic(), broker.topic()
    click = json.dumps({"page": "home", "at": "2026-01-01T09:00:10Z"}).encode()
    broker.send(source, [(0, None, click), (0, None, click)])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, broker.servers, source, target],
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2"
    reader = mt.kafka(broker.servers, target).open()
    sent = pl.concat(reader.read(None, reader.plan(None, None).end))
    assert [json.loads(value)["n"] for value in sent["value"].to_list()] == [2]


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "find_spec", lambda name: None if name == "cramjam" else name)
    topics = mt.kafka("there:9092", "orders", columns="id long")
    with pytest.raises(mt.MissingExtraError, match=r"reading topics needs .*'muntin\[kafka\]'$"):
        _ = topics.schema


def test_what_only_spark_reads_is_refused_here() -> None:
    for options, reason in [
        ({"reader": "spark"}, r"reader='spark' needs Spark; leave out"),
        (
            {"options": {"groupIdPrefix": "mine"}},
            "since options='groupIdPrefix' is an option of Spark's",
        ),
    ]:
        topics = mt.kafka("there:9092", "orders", columns="id long", **options)
        with pytest.raises(mt.OptionError, match=reason):
            _ = topics.schema


def test_columns_are_types_of_polars_too() -> None:
    topics = mt.kafka("there:9092", "orders", columns={"id": pl.Int16()})
    assert topics.schema["id"] == pl.Int16()
    assert [*topics.schema][1:] == [
        "key", "topic", "partition", "offset", "timestamp", "malformed", "malformed_detail",
    ]  # fmt: skip
