"""An agent of muntin on Spark that counts in a table of hopping windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin as mt
from benches.peers.command import Outcome, Run, serve
from benches.peers.muntin_settings import OWN
from benches.peers.spark_drive import drive


@dataclass(slots=True)
class Click:
    """One event."""

    k: int


def app_of(run: Run) -> mt.App:
    """Return the app that its user would write."""
    app = mt.App("tables", max_ahead=None)
    case = run.case
    emitted = app.Table("views", default=int, key_type=int)
    views = emitted.hopping(case.size, case.slide, expires=case.slide)

    @app.agent(app.topic("clicks", value_type=Click))
    async def count(clicks: Any) -> None:
        async for click in clicks:
            views[click.k] += 1

    return app


def results(events: DataFrame, run: Run) -> DataFrame:
    """Return the table's changes for a check; otherwise rows that only need its state."""
    clicks = mt.source(events.select("k", "ts"), key="k", time="ts")
    on_spark = mt.on_spark(app_of(run), {"clicks": clicks})
    if not run.check:
        return on_spark.rejected
    nothing = F.lit(0).cast("long")
    emitted = on_spark.table("views").withColumnsRenamed({"key": "k", "value": "count"})
    return emitted.withColumns({"sum": nothing, "max": nothing})


def main(run: Run) -> Outcome:
    """Run Spark over the whole stream."""
    return drive(run, results, "append", OWN)


if __name__ == "__main__":
    serve("muntin_tables", main)
