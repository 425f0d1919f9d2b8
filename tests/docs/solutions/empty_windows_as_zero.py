"""Count the readings of each room in each ten minutes, with 0 where there are none between."""

import polars as pl

import muntin as mt

counts = (
    mt.windowed(readings, key="room", time="at")
    .tumbling("10 minutes")
    .fill("zero", up_to="1 hour")
    .agg(n=mt.count())
)
newest = pl.col("window_start").filter(pl.col("n") > 0).max().over("room")
between = counts.results.filter(pl.col("window_start") <= newest)
answer = between.select("room", "window_start", "n")
