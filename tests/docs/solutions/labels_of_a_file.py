import muntin as mt

answer = mt.sql(
    """
    CREATE TABLE bids (seller STRING, item STRING, price BIGINT, at TIMESTAMP)
    WITH (connector = 'csv', path = 'bids.csv', header = 'true', mode = 'batch');
    CREATE TABLE items (item STRING, label STRING)
    WITH (connector = 'csv', path = 'items.csv', header = 'true', mode = 'batch');
    SELECT i.label, count(*) AS n
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' HOUR)) b
    LEFT JOIN items i ON b.item = i.item
    GROUP BY i.label, window_start, window_end
    """
).results
