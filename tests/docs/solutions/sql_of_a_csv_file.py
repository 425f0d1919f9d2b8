import muntin as mt

answer = mt.sql(
    """
    CREATE TABLE bids (seller STRING, item STRING, price BIGINT, at TIMESTAMP)
    WITH (connector = 'csv', path = 'bids.csv', header = 'true', mode = 'batch');
    SELECT window_start, sum(price) AS total
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' MINUTE))
    GROUP BY window_start, window_end
    """
).results
