"""Count page views in a windowed table, as in Faust's own example: ``views[page] += 1``."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

import muntin as mt

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
VIEWS = "page string, visitor string, at timestamp"


class View(mt.Record):
    page: str
    visitor: str


app = mt.App("page-views", lateness="1 minute", max_ahead=None)
views = app.Table("views", default=int).hopping("10 minutes", "5 minutes", expires="1 hour")
newest = app.Table("newest", default=str)


@app.agent(app.topic("views", value_type=View))
async def count(stream):
    async for view in stream:
        views[view.page] += 1
        newest[view.page] = view.visitor


def events() -> list[tuple[str, str, datetime]]:
    """Return an hour of views: the home page every minute, the cart every three minutes."""
    rows = []
    for minute in range(60):
        time = START + timedelta(minutes=minute)
        rows.append(("home", f"visitor-{minute}", time))
        if minute % 3 == 0:
            rows.append(("cart", f"visitor-{minute}", time))
    return rows


def run_locally(at: str) -> tuple[int, int, str]:
    """Run the app in this process.

    Returns:
        The home page's views in the window at a time, those in the window ten minutes before,
        and the page's last visitor.
    """
    names = ("page", "visitor", "at")
    rows = [dict(zip(names, row, strict=True)) for row in events()]
    with app.open() as running:
        running.feed({"views": mt.source(rows, key="page", time="at")})
        home = views["home"]
        return home.current(at), home.delta("10 minutes", at), newest["home"]


def run_on_spark(spark: SparkSession, folder: Path) -> mt.WindowedQuery:
    """Run the same app on Spark, which keeps its tables in the state of a query."""
    spark.createDataFrame(events(), VIEWS).coalesce(1).write.parquet(f"{folder}/views")
    stream = spark.readStream.schema(VIEWS).parquet(f"{folder}/views")
    run = mt.on_spark(app, {"views": mt.source(stream, key="page", time="at")})
    query = run.start(
        checkpoint=f"{folder}/checkpoint",
        tables={"views": mt.to_duckdb(f"{folder}/views.duckdb", "views")},
        available_now=True,
    )
    query.await_end()
    return query


if __name__ == "__main__":
    print(run_locally("2026-03-01T09:59:00Z"))
    with tempfile.TemporaryDirectory() as folder:
        spark = mt.session("page views")
        run_on_spark(spark, Path(folder))
        table = mt.open_table(f"{folder}/checkpoint", "views")
        print(table["home"].current("2026-03-01T09:59:00Z"))
