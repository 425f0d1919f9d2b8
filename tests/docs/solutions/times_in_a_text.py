import muntin as mt

counts = mt.sql(
    """
    WITH timed AS (SELECT item, to_timestamp(said) AS at FROM bids)
    SELECT item, count(*) AS n FROM timed GROUP BY item, TUMBLE(at, INTERVAL 1 HOUR)
    """,
    bids=bids,
)
answer = counts.results
wrong = counts.rejected.height
