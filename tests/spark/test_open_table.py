"""Tests that agents' tables, read from outside, agree with the query's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, rows
from tests.spark.test_agents import BATCHES, CLICK, COLUMNS, at

import muntin as mt

LAST = 3


def make_app() -> mt.App:
    """Return an app with tables of views by window, by session and in total, and of sets."""
    app = mt.App("shop", lateness="5 seconds", max_ahead=None)
    views = app.Table("views", default=int).hopping("30 seconds", "10 seconds", "1 minute")
    visits = app.Table("visits", default=list).session("20 seconds", "10 minutes")
    total = app.Table("total", default=int)
    numbers = app.SetTable("numbers")

    @app.agent(app.topic("clicks"))
    async def count(clicks: Any) -> None:
        async for click in clicks:
            views[click["page"]] += click["n"]
            visits[click["page"]] += [click["n"]]
            total[click["page"]] += click["n"]
            numbers[click["page"]].add(click["n"])

    return app


def run_query(spark: SparkSession, folder: Path) -> str:
    """Run a query for four batches into tables, and return its checkpoint."""
    feed = Feed(folder / "source", CLICK)
    for batch in BATCHES:
        pages, seconds, numbers = zip(*batch, strict=True)
        feed.add_table(pa.table([pages, [at(s) for s in seconds], numbers], schema=CLICK))
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    clicks = mt.source(frame.parquet(str(feed.folder)), key="page", time="at")
    run = mt.on_spark(make_app(), {"clicks": clicks})
    out = f"{folder}/out.duckdb"
    query = run.start(
        checkpoint=f"{folder}/checkpoint",
        tables={name: mt.to_duckdb(out, name) for name in ("views", "visits", "total", "numbers")},
        available_now=True,
    )
    assert query.await_end(timeout=240)
    assert query.progress.batch == LAST
    return f"{folder}/checkpoint"


@pytest.mark.slow
def test_tables(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = run_query(spark, tmp_path)
    out = tmp_path / "out.duckdb"
    emitted = (
        "SELECT key, window_start, window_end, value FROM {} WHERE emission = 'early' ORDER BY ALL"
    )

    views = mt.open_table(checkpoint, "views")
    sink = rows(out, emitted.format("views"))
    assert sorted(views.fetch().rows()) == sink
    ordered = views.frame().orderBy("key", "window_start").toArrow().to_pylist()
    assert [tuple(row.values()) for row in ordered] == sink
    assert sorted(views.fetch("b", start=at(305)).rows()) == [
        row for row in sink if row[0] == "b" and row[2] > at(305)
    ]
    assert views.watermark == at(295)
    assert views["b"].current(at(300)) == 1
    assert views["nobody"].current(at(300)) == 0
    assert dict(views.table.items().current(at(300))) == {"b": 1}
    assert "b" in views
    assert "a" not in views

    visits = mt.open_table(checkpoint, "visits")
    sink = rows(out, emitted.format("visits"))
    assert sorted(visits.fetch().rows()) == sink
    assert visits["a"].current(at(35)) == json.loads(
        next(value for key, start, _, value in sink if (key, start) == ("a", at(1)))
    )

    total = mt.open_table(checkpoint, "total")
    stored_totals = dict(rows(out, "SELECT key, value FROM total"))
    assert dict(total.table.items()) == dict(total.fetch().rows()) == stored_totals
    assert total["a"] == stored_totals["a"]
    numbers = mt.open_table(checkpoint, "numbers")
    assert set(numbers["b"]) == set(
        json.loads(dict(rows(out, "SELECT key, value FROM numbers"))["b"])
    )

    first = mt.open_table(checkpoint, "total", batch=0)
    assert dict(first.fetch().rows()) == {"a": 4, "b": 2, "c": 1}
    total = mt.open_table(checkpoint, "total")
    changes = total.changes(since=LAST - 1).rows()
    assert changes == [("a", total["a"], "changed"), ("b", total["b"], "changed")]
    assert [row[-1] for row in total.changes(since=0).rows()] == ["changed"] * 3

    views = mt.open_table(checkpoint, "views", batch=1)
    assert {(key, change_kind) for key, *_, change_kind in views.changes(since=0).rows()} == {
        ("a", "changed"), ("a", "new"), ("b", "changed"), ("b", "new"),
    }  # fmt: skip
    with pytest.raises(mt.OptionError, match=r"name='other' isn't a table .* one of views, visits"):
        mt.open_table(checkpoint, "other")
    with pytest.raises(mt.OptionError, match=r"holds tables; write muntin.open_table"):
        mt.open_state(checkpoint)
    with pytest.raises(mt.OptionError, match="batch=9 isn't kept"):
        mt.open_table(checkpoint, "views", batch=9)

    app = make_app()
    with app.open(partitions=3) as running:
        iterators = {name: running.changes(name) for name in ("views", "total", "visits")}
        events: list[dict[str, Any]] = []
        for number, batch in enumerate(BATCHES):
            for iterator in iterators.values():
                list(iterator)
            events += [{"page": page, "at": at(s), "n": n} for page, s, n in batch]
            clicks = mt.source(events, key="page", time="at")
            running.feed({"clicks": clicks})
            for name, iterator in iterators.items() if number else ():
                table = mt.open_table(checkpoint, name, batch=number)
                rows_of_changes = [change[:5] for change in iterator]
                if name == "total":
                    rows_of_changes = [
                        (key, value, change_kind)
                        for key, _, _, value, change_kind in rows_of_changes
                    ]
                if name == "visits":
                    rows_of_changes = [
                        (*window, json.dumps(value), change_kind)
                        for *window, value, change_kind in rows_of_changes
                    ]
                assert sorted(rows_of_changes) == sorted(table.changes(since=number - 1).rows())
