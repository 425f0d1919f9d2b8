-- Totals of each shop and minute, from a topic of Avro with a schema registry into a bucket.
--
-- muntin run examples/orders.sql --set servers=localhost:9092 --set registry=http://localhost:8081
--     --set lake=s3a://lake --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0

CREATE TABLE orders (
    WATERMARK FOR at AS at - INTERVAL '10' SECOND, OFFSET FOR (partition, offset)
) WITH (
    connector = 'kafka', topic = 'orders', 'bootstrap.servers' = '${servers}',
    format = 'avro', registry = '${registry}'
);
CREATE TABLE totals WITH (connector = 'parquet', path = '${lake}/totals');
CREATE TABLE rejected WITH (connector = 'parquet', path = '${lake}/rejected');
SET checkpoint = '${lake}/checkpoints';

INSERT INTO totals REJECTED INTO rejected
SELECT shop, window_start, count(*) AS orders, sum(amount) AS total
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY shop, window_start, window_end;
