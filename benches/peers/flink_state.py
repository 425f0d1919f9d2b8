"""Flink SQL with a window for each of many keys, in RocksDB: the size of its checkpoint.

Started by ``benches.large_state`` with the number of keys. Flink generates the messages itself. One
source continues with a message a second, so that the windows stay open; the run ends when the
checkpoints no longer grow.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from pyflink.common import Configuration, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.table import EnvironmentSettings, Schema, StreamTableEnvironment

START = 1_767_225_600_000  # milliseconds
CHECKPOINT_SECONDS = 10
LIMIT_SECONDS = 1800

SLOW = """
CREATE TEMPORARY TABLE slow (
    k BIGINT, v BIGINT, ts AS TO_TIMESTAMP_LTZ({start}, 3),
    WATERMARK FOR ts AS ts - INTERVAL '30' DAY(3)
) WITH (
    'connector' = 'datagen', 'rows-per-second' = '1', 'fields.k.min' = '0', 'fields.k.max' = '9'
)
"""
WINDOWS = """
INSERT INTO answers
SELECT k, window_start, COUNT(*), SUM(v), MAX(v)
FROM TABLE(TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' SECOND(6)))
GROUP BY k, window_start, window_end
"""
ANSWERS = """
CREATE TEMPORARY TABLE answers (k BIGINT, began TIMESTAMP(3), n BIGINT, s BIGINT, m BIGINT)
WITH ('connector' = 'blackhole')
"""


def start_job(keys: int, folder: Path) -> object:
    """Start the query, and return the handle of its job."""
    settings = {
        "parallelism.default": "2",
        "restart-strategy.type": "disable",
        "taskmanager.numberOfTaskSlots": "4",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "taskmanager.memory.managed.size": "2g",
        "execution.checkpointing.interval": f"{CHECKPOINT_SECONDS} s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "table.local-time-zone": "UTC",
        "rest.port": "0",
        "rest.bind-port": "0",
    }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    streams = StreamExecutionEnvironment.get_execution_environment(configuration)
    options = EnvironmentSettings.new_instance().in_streaming_mode()
    options = options.with_configuration(configuration).build()
    tables = StreamTableEnvironment.create(streams, options)
    numbers = NumberSequenceSource(0, keys - 1)
    source = streams.from_source(numbers, WatermarkStrategy.no_watermarks(), "all keys")
    schema = (
        Schema.new_builder()
        .column("f0", "BIGINT")
        .column_by_expression("k", "f0")
        .column_by_expression("v", "MOD(f0, 1000)")
        .column_by_expression("ts", f"TO_TIMESTAMP_LTZ({START}, 3)")
        .watermark("ts", "ts - INTERVAL '30' DAY(3)")
        .build()
    )
    tables.create_temporary_view("fast", source, schema)
    tables.execute_sql(SLOW.format(start=START))
    both = "SELECT k, v, ts FROM fast UNION ALL SELECT k, v, ts FROM slow"
    tables.execute_sql(f"CREATE TEMPORARY VIEW ev AS {both}")
    tables.execute_sql(ANSWERS)
    return tables.execute_sql(WINDOWS).get_job_client()


def size_of(folder: Path) -> int:
    """Return the size of the checkpoints in bytes."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # an old checkpoint that was just removed
            continue
    return size


def main(keys: int) -> None:
    """Run until the checkpoints stop growing, and print their size as JSON."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = start_job(keys, folder)
        sizes: list[int] = []
        while time.monotonic() - began < LIMIT_SECONDS:
            time.sleep(CHECKPOINT_SECONDS)
            sizes.append(size_of(folder / "checkpoints"))
            last = sizes[-4:]
            # Several checkpoints in a row have the same size, apart from the slow source.
            if len(last) == 4 and min(last) > 4 * keys and max(last) - min(last) < max(last) // 200:
                break
        job.cancel().result()  # type: ignore[attr-defined]
    print(json.dumps({"bytes": min(last), "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
