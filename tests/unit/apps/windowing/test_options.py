"""Options that can't work are refused, by name and with a hint."""

from __future__ import annotations

import pytest

import muntin as mt
from muntin.apps.windowing import Options
from muntin.apps.windowing.source import parse_source


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"displayinterval": 0}, "displayinterval=0 isn't greater than 0"),
        ({"duration": -1}, "duration=-1 isn't greater than 0"),
        ({"maxrows": -1}, "maxrows=-1 is less than 0"),
        ({"shardrows": -1}, "shardrows=-1 is less than 0"),
        ({"historyseconds": -0.5}, "historyseconds=-0.5 is less than 0"),
        ({"deletechunksize": 0}, "deletechunksize=0 is less than 1"),
        ({"deleteyieldtime": -1}, "deleteyieldtime=-1 is less than 0"),
        ({"ratelimit": 0}, "ratelimit=0 is less than 1"),
        ({"shards": 0}, "shards=0 is less than 1"),
        ({"averages": ()}, "averages='' names no span"),
        ({"averages": (1, 0)}, "averages='0' isn't a span"),
        ({"clock": "sun"}, "clock='sun' isn't a clock; give wall or event"),
        ({"historyseconds": 0}, "keep every row indefinitely; give one of them, or"),
    ],
)
def test_what_cannot_work_is_refused(given, said):
    with pytest.raises(mt.OptionError, match=said):
        Options(**given)


def test_limits_are_said_in_words():
    assert Options(maxrows=5000).limits == "the newest 5,000 rows of the last 30 s"
    assert Options().limits == "rows of the last 30 s"
    both = Options(maxrows=5000, shardrows=2000, historyseconds=0)
    assert both.limits == "the newest 5,000 rows, at most 2,000 of each shard"
    called = Options(historyseconds=0, deletes="calls")
    assert called.limits == "rows until a call deletes them"


def test_segments_grow_with_what_is_kept():
    assert Options().width == 1000
    assert Options(historyseconds=86_400).width == 144_000
    assert Options(historyseconds=0, maxrows=90_000_000, ratelimit=15_000).width == 10_000
    each = Options(historyseconds=0, shardrows=45_000_000, shards=2, ratelimit=15_000)
    assert each.width == 10_000


def test_sources_are_files_or_kafka():
    assert parse_source("random") is None
    assert parse_source("parquet:/data/x").options == {"path": "/data/x"}
    made = parse_source("kafka:a:9092,b:9092/timedata")
    assert made.options["bootstrap.servers"] == "a:9092,b:9092"
    for wrong in ("randon", "parquet:", "kafka:host", "x:y/z"):
        with pytest.raises(mt.OptionError, match="isn't a source; give random, parquet:FOLDER"):
            parse_source(wrong)
