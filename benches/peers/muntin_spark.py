"""muntin on Spark: the query that its user would write."""

from __future__ import annotations

from pyspark.sql import DataFrame

import muntin as mt
from benches.peers import muntin_auctions as auctions
from benches.peers.command import Outcome, Run, serve
from benches.peers.muntin_settings import OWN
from benches.peers.spark_drive import drive


def results(events: DataFrame, run: Run) -> DataFrame:
    """Return the query of a case."""
    case = run.case
    lateness = f"{case.lateness} seconds"
    windowed = mt.windowed(events, key="k", time="ts", lateness=lateness, max_ahead=None)
    if case.gap:
        windowed = windowed.session(f"{case.gap} seconds")
    elif case.size == case.slide:
        windowed = windowed.tumbling(f"{case.size} seconds")
    else:
        windowed = windowed.hopping(f"{case.size} seconds", slide=f"{case.slide} seconds")
    if case.early == "second":
        windowed = windowed.early(every="1 second")
    elif case.early == "batch":
        windowed = windowed.early(each=True)
    return windowed.agg(count=mt.count(), sum=mt.sum("v"), max=mt.max("v")).results


def pairs(left: DataFrame, right: DataFrame, run: Run) -> DataFrame:
    """Return the join of a case."""
    size = f"{run.case.size} seconds"
    lateness = f"{run.case.lateness} seconds"
    sides = [
        mt.windowed(events, time="ts", lateness=lateness, max_ahead=None).tumbling(size)
        for events in (left, right)
    ]
    joined = mt.join(*sides, on="k", layout=run.case.layout or None).results
    return joined.withColumnsRenamed({"v": "lv", "v_right": "rv"})


def main(run: Run) -> Outcome:
    """Run in append mode; early firings are rows of their own."""
    build = auctions.results if run.case.query else pairs if run.case.pair else results
    return drive(run, build, "append", OWN)


if __name__ == "__main__":
    serve("muntin_spark", main)
