"""Count views in one shard, then go on in four, with the state."""

import polars as pl

import muntin as mt


def run(shards):
    visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
    views = (
        mt.windowed(visits, key="page", time="at", shards=shards)
        .tumbling("1 minute")
        .agg(n=mt.count())
    )
    query = views.start(checkpoint="checkpoint", available_now=True)
    query.await_end()
    return query.frame().select("page", "window_start", "n")


before = run(1)
add_files()
shards = 4
answer = pl.concat([before, run(shards)])
