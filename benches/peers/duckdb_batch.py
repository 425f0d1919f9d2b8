"""DuckDB in one batch: the oracle of every check, and a ceiling."""

from __future__ import annotations

import time

import duckdb

from benches.auctions import CLOCK, Auctions
from benches.peers import duckdb_auctions
from benches.peers.command import Outcome, Run, serve, totals

SLICES = """
SELECT k, epoch_us(ts) // {slide} * {slide} AS s, count(*) AS c, sum(v)::BIGINT AS total,
       max(v) AS top
FROM read_parquet('{files}') WHERE epoch_ms(ts) <= {last_ms} GROUP BY ALL
"""

HOPS = """
WITH slices AS ({slices}),
grid AS (
    SELECT k, unnest(range(low - {size} + {slide}, high + 1, {slide})) AS s
    FROM (SELECT k, min(s) AS low, max(s) AS high FROM slices GROUP BY k)
)
SELECT * FROM (
    SELECT k, s, sum(c) OVER w AS c, sum(total) OVER w AS total, max(top) OVER w AS top
    FROM grid LEFT JOIN slices USING (k, s)
    WINDOW w AS (PARTITION BY k ORDER BY s ROWS BETWEEN CURRENT ROW AND {more} FOLLOWING)
) WHERE c > 0
"""

SESSIONS = """
WITH marked AS (
    SELECT k, v, epoch_us(ts) AS t,
           coalesce(t - lag(t) OVER (PARTITION BY k ORDER BY t) > {gap}, true) AS opens
    FROM read_parquet('{files}') WHERE epoch_ms(ts) <= {last_ms}
), numbered AS (
    SELECT *, count(*) FILTER (opens) OVER (PARTITION BY k ORDER BY t) AS number FROM marked
)
SELECT k, min(t) AS s, count(*) AS c, sum(v)::BIGINT AS total, max(v) AS top
FROM numbered GROUP BY k, number
"""


PAIRS = """
SELECT l.k AS c, l.v + r.v AS total, greatest(l.v, r.v) AS top
FROM read_parquet('{left}') AS l JOIN read_parquet('{right}') AS r
  ON l.k = r.k AND epoch_us(l.ts) // {size} = epoch_us(r.ts) // {size}
WHERE epoch_ms(l.ts) <= {last_ms}
"""


def query(run: Run) -> str:
    """Return a query with one row for each key and window start, or for each pair."""
    if isinstance(run.stream, Auctions):
        return duckdb_auctions.query(run.stream)
    if run.case.pair:
        left, right = (side.everything for side in run.stream.sides)
        size = run.case.size * 1_000_000
        return PAIRS.format(left=left, right=right, size=size, last_ms=run.stream.last_ms)
    files, last_ms = run.stream.everything, run.stream.last_ms
    if run.case.gap:
        return SESSIONS.format(gap=run.case.gap * 1_000_000, files=files, last_ms=last_ms)
    size, slide = run.case.size * 1_000_000, run.case.slide * 1_000_000
    slices = SLICES.format(slide=slide, files=files, last_ms=last_ms)
    if size == slide:
        return slices
    return HOPS.format(slices=slices, size=size, slide=slide, more=size // slide - 1)


def main(run: Run) -> Outcome:
    """Aggregate all rows at once."""
    connection = duckdb.connect(config={"threads": 2})
    if isinstance(run.stream, Auctions):
        connection.execute(duckdb_auctions.views(run.stream))
    started = time.perf_counter()
    connection.execute(f"CREATE TABLE answer AS {query(run)}")
    seconds = time.perf_counter() - started
    row = connection.execute("SELECT count(*), sum(c), sum(total), sum(top) FROM answer").fetchone()
    if run.case.counts:
        row = (*row[:2], 0, 0)
    if run.case.query == CLOCK:
        row = (0, *row[1:])
    return Outcome(seconds, totals(*row))


if __name__ == "__main__":
    serve("duckdb_batch", main)
