"""Count readings in windows of two lengths."""

import polars as pl

import muntin as mt

messages = mt.windowed(readings, key="room", time="at")
answer = pl.concat(
    messages.tumbling(f"{minutes} minutes")
    .agg(n=mt.count())
    .results.with_columns(minutes=pl.lit(minutes))
    for minutes in (10, 30)
)
