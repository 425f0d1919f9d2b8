"""Nexmark's queries from the examples."""

from __future__ import annotations

from examples.nexmark.queries import QUERIES
from pyspark.sql import DataFrame

from benches.peers.command import Run
from benches.peers.spark_auctions import select_columns


def results(*sides_and_run: DataFrame | Run) -> DataFrame:
    """Return the results of a case's query, in the columns of all cases."""
    *sides, run = sides_and_run
    names = [side.name for side in run.stream.sides]
    emitted = QUERIES[run.case.query](dict(zip(names, sides, strict=True)))
    return select_columns(emitted, run.case.query)
