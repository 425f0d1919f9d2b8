"""For each shelf and hour, count the different buyers and the orders above 10."""

import polars as pl

import muntin as mt

hours = (
    mt.windowed(orders, key="shelf", time="at")
    .tumbling("1 hour")
    .agg(buyers=mt.count_distinct("buyer"), dear=mt.count_if(pl.col("price") > 10))
)
answer = hours.results.select("shelf", "window_start", "buyers", "dear")
