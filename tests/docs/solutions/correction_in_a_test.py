"""Test what a late reading emits."""

import polars as pl

import muntin as mt
from muntin import testing

readings = pl.DataFrame(schema={"room": pl.String, "at": pl.Datetime("us", "UTC")})
windows = mt.windowed(readings, key="room", time="at").tumbling("10 minutes")
query = windows.late(grace="1 hour", each=True).agg(n=mt.count())
batches = [[{"room": "hall", "at": f"2026-01-01T09:{minute}:00Z"}] for minute in ("01", "12", "02")]
ran = testing.run(query, batches, final=False)
answer = ran.emissions.select("batch", "n", "emission").rows()
