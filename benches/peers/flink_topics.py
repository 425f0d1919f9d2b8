"""Flink SQL over a topic: its own Kafka connector, windows, and the time at which each was emitted.

Started by ``benches.topics``. Flink has no batches: its steady rate is the number of messages
between two windows, divided by the time between their results.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

from benches.topics import FAR, PER_SECOND, START, WORKS, Work
from benches.venvs import jars

MESSAGES = """
CREATE TEMPORARY TABLE orders (
    id BIGINT{null}, `at` TIMESTAMP_LTZ(3){null}, k BIGINT{null}, v BIGINT{null},
    WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', {form}
)
"""
# Its CSV format doesn't accept a zone after a time.
FORMS = {
    "json": "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'",
    "avro": "'format' = 'avro', 'avro.timestamp_mapping.legacy' = 'false'",
}
RESULTS = """
CREATE TEMPORARY TABLE answers (
    began TIMESTAMP(3), n BIGINT, s BIGINT, m BIGINT, emitted TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')
"""
WINDOWS = """
INSERT INTO answers
SELECT window_start, COUNT(*), SUM(v), MAX(v), CAST(CURRENT_ROW_TIMESTAMP() AS TIMESTAMP(3))
FROM TABLE({call}) GROUP BY k, window_start, window_end
"""


def environment(folder: Path, backend: str = "hashmap") -> TableEnvironment:
    """Return an environment with two slots, and checkpoints every 2 s; state is on the heap."""
    settings = {
        "parallelism.default": "2",
        "restart-strategy.type": "disable",
        "taskmanager.numberOfTaskSlots": "2",
        "state.backend.type": backend,
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "table.local-time-zone": "UTC",
        "rest.port": "0",
        "rest.bind-port": "0",
        "pipeline.jars": ";".join(path.as_uri() for path in jars("flink")),
    }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    options = EnvironmentSettings.new_instance().in_streaming_mode()
    return TableEnvironment.create(options.with_configuration(configuration).build())


def call(work: Work) -> str:
    """Return the windowing table function; a hop's slide comes first."""
    size, slide = (f"INTERVAL '{seconds}' SECOND(3)" for seconds in (work.size, work.slide))
    rows = "TABLE orders, DESCRIPTOR(`at`)"
    if work.size == work.slide:
        return f"TUMBLE({rows}, {size})"
    return f"HOP({rows}, {slide}, {size})"


def read_results(folder: Path) -> list[tuple[int, int, int, int, float]]:
    """Return the rows of finished files: window start (ms), count, sum, maximum, emission (s)."""
    rows = []
    for path in folder.rglob("part-*"):
        with path.open(newline="") as lines:
            for began, n, s, m, at in csv.reader(lines):
                row = round(1000 * seconds(began)), int(n), int(s), int(m), seconds(at)
                rows.append(row)
    return rows


def seconds(text: str) -> float:
    """Convert a time of Flink's to seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def main(work: Work, servers: str, topic: str) -> None:
    """Run the insert to the end of the topic, and print its figures as JSON."""
    started = time.time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = environment(folder)
        # For nullable columns, Flink would use another Avro schema than the topic's.
        null = " NOT NULL" if work.form == "avro" else ""
        options = {"topic": topic, "servers": servers, "form": FORMS[work.form]}
        tables.execute_sql(MESSAGES.format(**options, null=null))
        tables.execute_sql(RESULTS.format(folder=(folder / "answers").as_uri()))
        tables.execute_sql(WINDOWS.format(call=call(work))).wait()
        ended = time.time()
        rows = [row for row in read_results(folder / "answers") if row[0] < FAR - 1000 * work.size]
    ends = {began: at for began, *_, at in sorted(rows, key=lambda row: row[-1])}
    # The first third is left out, as for batches, and so are the windows closed by the end.
    starts = sorted(
        start for start in ends if START <= start < START + 1000 * work.rows // PER_SECOND
    )
    first, last = starts[len(starts) // 3], starts[-1 - work.size // work.slide]
    sums = [sum(row[i] for row in rows) for i in (1, 2, 3)]
    print(json.dumps({
        "totals": [len(rows), *sums], "first": min(ends.values()) - started,
        "whole": ended - started, "messages": (last - first) * PER_SECOND // 1000,
        "seconds": ends[last] - ends[first],
    }))  # fmt: skip


if __name__ == "__main__":
    main(WORKS[sys.argv[1]], *sys.argv[2:])
