"""Nexmark's queries in DuckDB, over all events at once; they check the examples."""

from __future__ import annotations

from examples.nexmark.check import WINDOWED

from benches.auctions import CLOCK, SHAPES, Auctions
from benches.stream import T0_MS

BY_CLOCK = "SELECT bidder AS k, count(*) AS c, bidder * count(*) AS total, 0 AS top FROM bids"


def views(stream: Auctions) -> str:
    """Return statements that name the kinds of events."""
    read = "SELECT * FROM read_parquet('{}') WHERE epoch_ms(time) <= {}"
    return "".join(
        f"CREATE VIEW {kind.name} AS {read.format(kind.everything, stream.last_ms)};"
        for kind in stream.sides
    )


def query(stream: Auctions) -> str:
    """Return one row for each result: key, start of its window, count, sum and max."""
    if stream.query == CLOCK:
        return f"{BY_CLOCK} GROUP BY bidder"
    key, value = SHAPES[stream.query]
    return (
        f"SELECT {key} AS k, window_start AS s, {value} AS c,"
        f" {key} * ((window_start - {T0_MS}) // 1000) AS total, {value} AS top"
        f" FROM ({WINDOWED[stream.query]})"
    )
