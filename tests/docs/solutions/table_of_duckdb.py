"""Keep a table of DuckDB up to date with the views of each page in each complete minute."""

import muntin as mt

visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
views = mt.windowed(visits, key="page", time="at").tumbling("1 minute").agg(n=mt.count())
query = views.start(
    checkpoint="checkpoint",
    results=mt.to_duckdb("views.duckdb", "views"),
    available_now=True,
)
query.await_end()
