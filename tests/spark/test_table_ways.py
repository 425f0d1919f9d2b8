"""Tests that agents on Spark give the tables of this process, in any number of shards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import STAMP, Feed

import muntin as mt

START = datetime(2026, 1, 1, tzinfo=UTC)
VIEW = pa.schema(
    [
        ("user", pa.string()),
        ("page", pa.string()),
        ("at", STAMP),
        ("seen", STAMP),
        ("n", pa.int64()),
    ]
)
COLUMNS = "user string, page string, at timestamp, seen timestamp, n long"
# The times of events and the times at which they were seen; no event time is late.
SECONDS = [(n, 3 * n % 40 + (60 if n > 40 else 0)) for n in range(60)]


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def make_views() -> list[dict[str, Any]]:
    """Return views of users and pages; the greatest time of each batch comes first."""
    return [
        {"user": f"u{n % 5}", "page": f"p{n % 3}", "at": at(first), "seen": at(second), "n": n}
        for n, (first, second) in enumerate(SECONDS)
    ]


def make_app() -> mt.App:
    app = mt.App("ways", max_ahead=None)
    total = app.Table("total", default=int)
    seen = app.Table("seen", default=list).tumbling(10, expires=5)
    by_seen = seen.relative_to_field("seen")
    changed = app.Table("changed", default=list).tumbling(10, expires=5)

    @app.agent(app.topic("views"))
    def view(row: Any) -> None:
        key = row["user"], row["page"]
        total[key] += 1
        by_seen[key] += [row["n"]]
        changed[key].current(at(2 * row["n"] % 50)).append(row["n"])

    return app


TABLES = ("total", "seen", "changed")
KEYS = [(f"u{n}", f"p{m}") for n in range(5) for m in range(3)]


def read(table: Any, key: Any) -> Any:
    if table.spec.windows is None:
        return table[key], key in table
    return {window: list(value) for window, value in table[key].windows().items()}


@pytest.mark.slow
@pytest.mark.parametrize(("key", "shards"), [("user", 4), (None, 1)])
def test_tables_of_streams(
    spark: SparkSession, tmp_path: Path, shards: int, key: str | None
) -> None:
    rows = make_views()
    app = make_app()
    with app.run({"views": mt.source(rows, key=key, time="at")}, batch=1) as running:
        local_values = {name: [read(_handle(app, name), k) for k in KEYS] for name in TABLES}
        late = sorted((row.value["n"], row.table, row.reason) for row in running.rejected)
        counts = running.counts
    assert late
    feed = Feed(tmp_path / "source", VIEW)
    for first in range(0, len(rows), 12):
        feed.add_table(pa.Table.from_pylist(rows[first : first + 12], schema=VIEW))
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    views = mt.source(frame.parquet(str(feed.folder)), key=key, time="at")
    run = mt.on_spark(make_app(), {"views": views}, shards=shards)
    out = tmp_path / "rejected"
    query = run.start(
        checkpoint=f"{tmp_path}/checkpoint", rejected=mt.to_parquet(str(out)), available_now=True
    )
    assert query.await_end(timeout=240)
    for name in TABLES:
        open_table = mt.open_table(f"{tmp_path}/checkpoint", name).table
        assert [read(open_table, k) for k in KEYS] == local_values[name], name
    rejected = spark.read.parquet(str(out)).selectExpr(
        "get_json_object(value, '$.n') AS n", "table", "reason"
    )
    assert sorted((int(row.n), row.table, row.reason) for row in rejected.collect()) == late
    assert {k: v for k, v in query.progress.counts.items() if v} == counts


def _handle(app: mt.App, name: str) -> Any:
    from muntin.tables import Table, WindowedTable

    return (Table if app.tables[name].windows is None else WindowedTable)(app, name)
