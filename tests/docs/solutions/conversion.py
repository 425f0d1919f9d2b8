"""Divide the purchases of each page and window by its views."""

import polars as pl

import muntin as mt


def count(messages, **name):
    return mt.windowed(messages, key="page", time="at").tumbling("10 minutes").agg(**name)


both = mt.join(
    count(views, views=mt.count()),
    count(purchases, purchases=mt.count()),
    on=["page", "window_start", "window_end"],
    how="left",
)
rate = pl.col("purchases").fill_null(0) / pl.col("views")
answer = both.results.with_columns(rate=rate)
