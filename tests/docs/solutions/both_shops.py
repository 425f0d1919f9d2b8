import muntin as mt

answer = mt.sql(
    """
    WITH bids AS (SELECT * FROM north UNION ALL SELECT * FROM south)
    SELECT item, sum(price) AS total FROM bids GROUP BY item, TUMBLE(at, INTERVAL 10 MINUTES)
    """,
    north=north,
    south=south,
).results
