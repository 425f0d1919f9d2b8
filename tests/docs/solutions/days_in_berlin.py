"""Count the calls of each calendar day of Berlin, also where clocks go forward."""

import polars as pl

import muntin as mt

instants = calls.with_columns(pl.col("at").dt.replace_time_zone("UTC"))
days = mt.windowed(instants, time="at").tumbling("1 day", zone="Europe/Berlin").agg(n=mt.count())
answer = days.results.select("window_start", "window_end", "n")
