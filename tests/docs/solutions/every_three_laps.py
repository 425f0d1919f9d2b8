"""Sum the seconds of every three laps of a runner, by arrival."""

import polars as pl

import muntin as mt

sums = (
    mt.windowed(laps, key="runner")
    .tumbling(mt.rows(3))
    .agg(total=mt.sum("seconds"), laps=mt.count())
)
answer = sums.results.filter(pl.col("laps") == 3).select("runner", "total")
