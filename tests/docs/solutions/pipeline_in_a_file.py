"""Write a pipeline that keeps the views of each page and minute in a table of DuckDB."""

from pathlib import Path

pipeline = """
CREATE TABLE clicks (
    page STRING, at TIMESTAMP,
    WATERMARK FOR at AS at
) WITH (connector = 'json', path = '${data}');

CREATE TABLE views WITH (connector = 'duckdb', path = 'views.duckdb');
SET checkpoint = 'checkpoints';

INSERT INTO views
SELECT page, count(*) AS n
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY page, window_start, window_end;
"""
Path("views.sql").write_text(pipeline)
