"""The queries in DuckDB, which computes them over all rows at once."""

from __future__ import annotations

WINDOWED: dict[str, str] = {
    "q5": """
        WITH held AS (
            SELECT auction, (epoch_ms(time) // 2000 - hop) * 2000 AS window_start
            FROM bids, range(5) AS hops(hop)
        ), counted AS (
            SELECT window_start, auction, count(*) AS bids FROM held GROUP BY ALL
        )
        SELECT * FROM counted QUALIFY bids = max(bids) OVER (PARTITION BY window_start)
    """,
    "q7": """
        SELECT epoch_ms(time) // 10000 * 10000 AS window_start,
            max({price: price, bidder: bidder}).bidder AS bidder, max(price) AS price
        FROM bids GROUP BY window_start
    """,
    "q8": """
        SELECT DISTINCT epoch_ms(p.time) // 10000 * 10000 AS window_start, p.id, p.name
        FROM persons p SEMI JOIN auctions a
          ON p.id = a.seller AND epoch_ms(p.time) // 10000 = epoch_ms(a.time) // 10000
    """,
    "q11": """
        WITH marked AS (
            SELECT bidder, epoch_ms(time) AS t, coalesce(
                t - lag(t) OVER (PARTITION BY bidder ORDER BY t) > 10000, true) AS opens
            FROM bids
        ), numbered AS (
            SELECT *, count(*) FILTER (opens) OVER (PARTITION BY bidder ORDER BY t) AS number
            FROM marked
        )
        SELECT min(t) AS window_start, bidder, count(*) AS bids
        FROM numbered GROUP BY bidder, number
    """,
}
"""A query for DuckDB by the name of the query; window starts are in milliseconds."""
