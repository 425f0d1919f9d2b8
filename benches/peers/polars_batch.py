"""Polars in one batch: a ceiling."""

from __future__ import annotations

import os
import time

os.environ.setdefault("POLARS_MAX_THREADS", "2")

import polars as pl

from benches.peers.command import Outcome, Run, serve, totals


def answer(run: Run) -> pl.LazyFrame:
    """Return one row for each key and window start, or for each pair."""
    if run.case.pair:
        return pairs(run)
    rows = pl.scan_parquet(run.stream.everything)
    rows = rows.filter(pl.col("ts").dt.epoch("ms") <= run.stream.last_ms)
    sums = (
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("v").sum().alias("sum"),
        pl.col("v").max().alias("max"),
    )
    if run.case.gap:
        silence = pl.col("ts").diff() > pl.duration(seconds=run.case.gap)
        opens = (pl.col("k").diff() != 0) | silence
        number = opens.fill_null(False).cum_sum().alias("session")
        return rows.sort("k", "ts").with_columns(number).group_by("session").agg(*sums)
    slide = f"{run.case.slide}s"
    slices = rows.group_by("k", pl.col("ts").dt.truncate(slide).alias("ts")).agg(*sums)
    if run.case.size == run.case.slide:
        return slices
    # The offset lets windows begin before the first row; there are far fewer slices than rows.
    hops = slices.sort("k", "ts").group_by_dynamic(
        "ts",
        every=slide,
        period=f"{run.case.size}s",
        offset=f"-{run.case.size - run.case.slide}s",
        group_by="k",
    )
    return hops.agg(pl.col("count").sum(), pl.col("sum").sum(), pl.col("max").max())


def pairs(run: Run) -> pl.LazyFrame:
    """Return the join of both sides by key and window."""
    window = pl.col("ts").dt.truncate(f"{run.case.size}s").alias("w")
    left, right = (
        pl.scan_parquet(side.everything)
        .filter(pl.col("ts").dt.epoch("ms") <= run.stream.last_ms)
        .select("k", "v", window)
        for side in run.stream.sides
    )
    return left.join(right, on=["k", "w"]).select(
        count="k", sum=pl.col("v") + pl.col("v_right"), max=pl.max_horizontal("v", "v_right")
    )


def main(run: Run) -> Outcome:
    """Aggregate all rows at once."""
    started = time.perf_counter()
    frame = answer(run).collect(engine="streaming")
    seconds = time.perf_counter() - started
    return Outcome(
        seconds,
        totals(frame.height, frame["count"].sum(), frame["sum"].sum(), frame["max"].sum()),
    )


if __name__ == "__main__":
    serve("polars_batch", main)
