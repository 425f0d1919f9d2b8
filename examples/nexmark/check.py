"""The queries again, in DuckDB, over all rows at once."""

from __future__ import annotations

WINDOWED: dict[str, str] = {
    "q5": """
        WITH counted AS (
            SELECT auction, count(*) AS bids, unnest(range(
                (epoch_ms(time) // 2000 - 4) * 2000, epoch_ms(time) // 2000 * 2000 + 1, 2000
            )) AS start
            FROM bids GROUP BY ALL
        ), summed AS (SELECT auction, start, sum(bids)::BIGINT AS bids FROM counted GROUP BY ALL)
        SELECT start AS window_start, auction, bids FROM summed
        QUALIFY bids = max(bids) OVER (PARTITION BY start)
    """,
    "q7": """
        SELECT epoch_ms(time) // 10000 * 10000 AS window_start, bidder, price FROM bids
        QUALIFY price = max(price) OVER (PARTITION BY epoch_ms(time) // 10000)
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
"""Rows of windows that lie within the stream, starts in milliseconds, in columns as told."""
