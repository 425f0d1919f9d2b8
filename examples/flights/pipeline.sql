-- Delays of New York's flights, an hour at a time, by airport: the first query of pipeline.py in SQL.
--
-- muntin explain examples/flights/pipeline.sql
-- muntin run examples/flights/pipeline.sql --until-quiet --set data=FOLDER --set out=FOLDER

CREATE TABLE flights (
    scheduled TIMESTAMP_NTZ, landed TIMESTAMP_NTZ, origin STRING, dest STRING, carrier STRING,
    flight BIGINT, dep_delay BIGINT,
    WATERMARK FOR scheduled AS scheduled - INTERVAL '1' HOUR
) WITH (connector = 'parquet', path = '${data}', maxFilesPerTrigger = 1);

CREATE TABLE airports WITH (
    connector = 'duckdb', path = '${out}/flights.duckdb', table = 'origin', history = 'origin_history'
);
CREATE TABLE rejected WITH (
    connector = 'duckdb', path = '${out}/flights.duckdb', table = 'origin_rejected'
);
SET checkpoint = '${out}/checkpoints';

INSERT INTO airports REJECTED INTO rejected
SELECT origin, count(*) AS flights, count(dep_delay) AS departed, avg(dep_delay) AS mean,
       max(dep_delay) AS worst, quantile(dep_delay, 0.95) AS p95
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(scheduled), INTERVAL '5' MINUTE, INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end
EMIT EARLY EVERY 2 SECONDS LATE EVERY 2 SECONDS GRACE 3 HOURS;
