"""Find the greatest number of payments of each card within nine minutes."""

import polars as pl

import muntin as mt

counts = mt.windowed(payments, key="card", time="at").sliding("9 minutes").agg(n=mt.count())
answer = counts.results.group_by("card").agg(most=pl.col("n").max())
