"""Queries in Flink's SQL, over the tables of this example, each with the same query for DuckDB.

Queries 5, 7, 8 and 11 run as Flink's suite has them. Those that group by a day of the bids, or look
for the best bid of an auction, never end on a stream; they are windows here.
"""

from __future__ import annotations

from typing import NamedTuple

from examples.nexmark.check import WINDOWED


class Printed(NamedTuple):
    """A statement, columns of its results, and a query for the same columns in DuckDB."""

    statement: str
    columns: tuple[str, ...]
    same: str


_HOP = "HOP(TABLE bids, DESCRIPTOR(time), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
_RANKS = """
    count(*) AS total_bids,
    count(*) FILTER (WHERE price < 10000) AS rank1_bids,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (WHERE price >= 1000000) AS rank3_bids
"""
_DISTINCT = """
    count(DISTINCT bidder) AS total_bidders,
    count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
    count(DISTINCT auction) AS total_auctions,
    count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
"""
_COUNTS = ("total_bids", "rank1_bids", "rank2_bids", "rank3_bids")
_COUNTS_DISTINCT = ("total_bidders", "rank1_bidders", "total_auctions", "rank3_auctions")
_DAY = "TUMBLE(time, INTERVAL '1' DAY)"

PRINTED: dict[str, Printed] = {
    "q5": Printed(
        f"""
        SELECT AuctionBids.auction, AuctionBids.num
        FROM (
            SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
            FROM TABLE({_HOP}) GROUP BY auction, window_start, window_end
        ) AS AuctionBids
        JOIN (
            SELECT max(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime
            FROM (
                SELECT count(*) AS num, window_start AS starttime, window_end AS endtime
                FROM TABLE({_HOP}) GROUP BY auction, window_start, window_end
            ) AS CountBids
            GROUP BY CountBids.starttime, CountBids.endtime
        ) AS MaxBids
        ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
            AND AuctionBids.num >= MaxBids.maxn
        """,
        ("auction", "num"),
        f"SELECT auction, bids FROM ({WINDOWED['q5']})",
    ),
    "q7": Printed(
        """
        SELECT B.auction, B.price, B.bidder, B.time
        FROM bids B
        JOIN (
            SELECT MAX(price) AS maxprice, window_end AS time
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(time), INTERVAL '10' SECOND))
            GROUP BY window_start, window_end
        ) B1
        ON B.price = B1.maxprice
        WHERE B.time BETWEEN B1.time - INTERVAL '10' SECOND AND B1.time
        """,
        ("auction", "price", "bidder"),
        """
        WITH best AS (
            SELECT max(price) AS maxprice, epoch_ms(time) // 10000 * 10000 + 10000 AS ended
            FROM bids GROUP BY ended
        )
        SELECT B.auction, B.price, B.bidder FROM bids B JOIN best
        ON B.price = maxprice AND epoch_ms(B.time) BETWEEN ended - 10000 AND ended
        """,
    ),
    "q8": Printed(
        """
        SELECT P.id, P.name, P.starttime
        FROM (
            SELECT id, name, window_start AS starttime, window_end AS endtime
            FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(time), INTERVAL '10' SECOND))
            GROUP BY id, name, window_start, window_end
        ) P
        JOIN (
            SELECT seller, window_start AS starttime, window_end AS endtime
            FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(time), INTERVAL '10' SECOND))
            GROUP BY seller, window_start, window_end
        ) A
        ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime
        """,
        ("id", "name"),
        f"SELECT id, name FROM ({WINDOWED['q8']})",
    ),
    "q9 in windows": Printed(
        """
        WITH pairs AS (
            SELECT A.id, A.expires, B.bidder, B.price, B.time AS bid_time
            FROM auctions A, bids B
            WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.time + INTERVAL '12' SECOND
                AND B.time <= A.expires
        )
        SELECT id, bidder, price FROM (
            SELECT id, bidder, price, ROW_NUMBER() OVER (
                PARTITION BY window_start, window_end, id ORDER BY price DESC, bid_time ASC
            ) AS rownum
            FROM TABLE(TUMBLE(TABLE pairs, DESCRIPTOR(expires), INTERVAL '1' SECOND))
        )
        WHERE rownum <= 1
        """,
        ("id", "bidder", "price"),
        """
        SELECT A.id, B.bidder, B.price FROM auctions A JOIN bids B
        ON A.id = B.auction AND B.time BETWEEN A.time AND A.expires
        QUALIFY row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.time ASC) <= 1
        """,
    ),
    "q11": Printed(
        """
        SELECT B.bidder, count(*) AS bid_count,
            SESSION_START(B.time, INTERVAL '10' SECOND) AS starttime,
            SESSION_END(B.time, INTERVAL '10' SECOND) AS endtime
        FROM bids B
        GROUP BY B.bidder, SESSION(B.time, INTERVAL '10' SECOND)
        """,
        ("bidder", "bid_count"),
        f"SELECT bidder, bids FROM ({WINDOWED['q11']})",
    ),
    "q15 in windows": Printed(
        f"SELECT {_RANKS}, {_DISTINCT} FROM bids GROUP BY {_DAY}",
        (*_COUNTS, *_COUNTS_DISTINCT),
        f"SELECT {_RANKS}, {_DISTINCT} FROM bids",
    ),
    "q16 in windows": Printed(
        f"SELECT channel, {_RANKS}, {_DISTINCT} FROM bids GROUP BY channel, {_DAY}",
        ("channel", *_COUNTS, *_COUNTS_DISTINCT),
        f"SELECT channel, {_RANKS}, {_DISTINCT} FROM bids GROUP BY channel",
    ),
    "q17 in windows": Printed(
        f"SELECT auction, {_RANKS}, min(price) AS least, max(price) AS most, avg(price) AS mean, "
        f"sum(price) AS total FROM bids GROUP BY auction, {_DAY}",
        ("auction", *_COUNTS, "least", "most", "mean", "total"),
        f"SELECT auction, {_RANKS}, min(price), max(price), avg(price), sum(price)::BIGINT "
        "FROM bids GROUP BY auction",
    ),
    "ranks of windows": Printed(
        f"""
        SELECT auction, num, place FROM (
            SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY num DESC) AS place
            FROM (
                SELECT auction, count(*) AS num, window_start, window_end
                FROM TABLE({_HOP}) GROUP BY auction, window_start, window_end
            )
        )
        WHERE place <= 3
        """,
        ("auction", "num", "place"),
        """
        WITH held AS (
            SELECT auction, (epoch_ms(time) // 2000 - hop) * 2000 AS window_start
            FROM bids, range(5) AS hops(hop)
        ), counted AS (
            SELECT window_start, auction, count(*) AS num FROM held GROUP BY ALL
        )
        SELECT auction, num, rank() OVER (PARTITION BY window_start ORDER BY num DESC) AS place
        FROM counted QUALIFY place <= 3
        """,
    ),
    "dense ranks of messages": Printed(
        """
        SELECT bidder, auction, place FROM (
            SELECT bidder, auction, DENSE_RANK() OVER (
                PARTITION BY window_start, window_end ORDER BY auction
            ) AS place
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(time), INTERVAL '10' SECOND))
        )
        WHERE place < 3
        """,
        ("bidder", "auction", "place"),
        """
        SELECT bidder, auction, dense_rank() OVER (
            PARTITION BY epoch_ms(time) // 10000 ORDER BY auction
        ) AS place
        FROM bids QUALIFY place < 3
        """,
    ),
}
"""The statements by name."""
