"""Flink SQL: windowing table functions over rows that Flink generates itself."""

from __future__ import annotations

import csv
import time
from pathlib import Path

from pyflink.common import Configuration, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.table import EnvironmentSettings, Schema, StreamTableEnvironment

from benches.auctions import CLOCK, Auctions
from benches.peers import flink_auctions
from benches.peers.command import Outcome, Run, serve, totals
from benches.stream import BURST_EVERY_MS, ROUNDS_OF_A_BURST, T0_MS, Stream

SINK = """
CREATE TEMPORARY TABLE answers (
    k BIGINT, window_start TIMESTAMP(3), c BIGINT, total BIGINT, top BIGINT
) WITH ({options})
"""

AGGREGATES = """
INSERT INTO answers
SELECT k, window_start, COUNT(*), SUM(v), MAX(v) FROM TABLE({window})
GROUP BY k, window_start, window_end
"""


PAIRS = """
INSERT INTO answers
SELECT l.k, l.window_start, l.k, l.v + r.v, GREATEST(l.v, r.v)
FROM (SELECT * FROM TABLE(TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '{size}' SECOND(6)))) AS l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE ev_right, DESCRIPTOR(ts), INTERVAL '{size}' SECOND(6)))) AS r
ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end
"""


def environment(run: Run) -> tuple[StreamExecutionEnvironment, StreamTableEnvironment]:
    """Return an environment with two slots, checkpoints every 2 s, and a state backend."""
    settings = {
        "parallelism.default": "2",
        # A failure is reported instead of retried.
        "restart-strategy.type": "disable",
        "taskmanager.numberOfTaskSlots": "2",
        "state.backend.type": "rocksdb" if run.state == "rocksdb" else "hashmap",
        "state.backend.incremental": "true",
        "taskmanager.memory.managed.size": "2g",
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (run.work / "checkpoints").as_uri(),
        "table.local-time-zone": "UTC",
        "rest.port": "0",
        "rest.bind-port": "0",
    }
    if run.mini_batch:
        settings |= {
            "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.allow-latency": "1 s",
            "table.exec.mini-batch.size": "50000",
        }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    streams = StreamExecutionEnvironment.get_execution_environment(configuration)
    options = EnvironmentSettings.new_instance().in_streaming_mode()
    options = options.with_configuration(configuration).build()
    return streams, StreamTableEnvironment.create(streams, options)


def formula(stream: Stream, i: str) -> tuple[str, str]:
    """Return the key and event time (milliseconds) of a row in SQL."""
    if not stream.bursts:
        ahead = f"({i} + {stream.shift})"
        k = f"MOD(MOD({ahead} * 1103515245 + 12345, 2147483648) / 256, {stream.keys})"
        return k, f"{T0_MS} + 1000 * {i} / {stream.per_second}"
    round_number, number = f"({i} / {stream.per_second})", f"MOD({i}, {stream.per_second})"
    odd, dropped = f"MOD({number}, 2)", f"MOD(3 - MOD({round_number}, 3), 3)"
    k = f"3 * ({number} / 2) + {odd} + CASE WHEN {odd} >= {dropped} THEN 1 ELSE 0 END"
    burst = f"{BURST_EVERY_MS} * ({round_number} / {ROUNDS_OF_A_BURST})"
    second = f"1000 * MOD({round_number}, {ROUNDS_OF_A_BURST})"
    return k, f"{T0_MS} + {burst} + {second} + 1000 * {number} / {stream.per_second}"


def read(
    stream: Stream, name: str, streams: StreamExecutionEnvironment, tables: StreamTableEnvironment
) -> None:
    """Declare a stream as two sources with every other row, so that both cores read evenly.

    The ``datagen`` connector keeps all numbers that are still to come in its checkpoints; this
    source keeps only its position.
    """
    halves = []
    for half in (0, 1):
        last = (stream.rows - 1 - half) // 2
        numbers = NumberSequenceSource(0, last)
        source = streams.from_source(numbers, WatermarkStrategy.no_watermarks(), f"{name} {half}")
        i = f"(f0 * 2 + {half})"
        k, ms = formula(stream, i)
        schema = (
            Schema.new_builder()
            .column("f0", "BIGINT")
            .column_by_expression("k", k)
            .column_by_expression("v", f"MOD(({i} + {stream.shift}) * 48271, 1000)")
            .column_by_expression("ts", f"TO_TIMESTAMP_LTZ({ms}, 3)")
            .watermark("ts", "ts - INTERVAL '0.001' SECOND")
            .build()
        )
        tables.create_temporary_view(f"{name}{half}", source.set_parallelism(1), schema)
        halves.append(f"SELECT k, v, ts FROM {name}{half}")
    tables.execute_sql(f"CREATE TEMPORARY VIEW {name} AS {' UNION ALL '.join(halves)}")


def window(run: Run) -> str:
    """Return the windowing table function of a case; a hop's slide comes first."""
    size, slide, gap = run.case.size, run.case.slide, run.case.gap
    if gap:
        return f"SESSION(TABLE ev PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND)"
    if size == slide:
        return f"TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '{size}' SECOND(6))"
    return (
        f"HOP(TABLE ev, DESCRIPTOR(ts), INTERVAL '{slide}' SECOND(6), INTERVAL '{size}' SECOND(6))"
    )


def query(run: Run, streams: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> str:
    """Declare the inputs, and return the statement of a case."""
    if isinstance(run.stream, Auctions):
        emitted = flink_auctions.query(run, tables)
        return (
            f"INSERT INTO answers SELECT *, CAST(0 AS BIGINT), CAST(0 AS BIGINT) FROM ({emitted})"
        )
    for side, name in zip(run.stream.sides, ("ev", "ev_right"), strict=False):
        read(side, name, streams, tables)
    return (
        PAIRS.format(size=run.case.size) if run.case.pair else AGGREGATES.format(window=window(run))
    )


def main(run: Run) -> Outcome:
    """Run the insert to its end; a bounded source closes every window."""
    streams, tables = environment(run)
    statement = query(run, streams, tables)
    answers = run.work / "answers"
    sink = "'connector' = 'blackhole'"
    if run.check:
        sink = f"'connector' = 'filesystem', 'path' = '{answers.as_uri()}', 'format' = 'csv'"
    tables.execute_sql(SINK.format(options=sink))
    started = time.perf_counter()
    tables.execute_sql(statement).wait()
    seconds = time.perf_counter() - started
    return Outcome(seconds, sum_files(answers, run.case.query) if run.check else None)


def sum_files(folder: Path, query: str) -> dict[str, int]:
    """Count and sum the rows of finished CSV files."""
    rows = count = total = top = 0
    for path in folder.rglob("part-*"):
        with path.open(newline="") as lines:
            for k, start, *numbers in csv.reader(lines):
                c, t, m = map(int, numbers)
                if query:
                    t, m = flink_auctions.compute_checksums(query, int(k), start, c)
                rows, count, total, top = rows + 1, count + c, total + t, top + m
    return totals(0 if query == CLOCK else rows, count, total, top)


if __name__ == "__main__":
    serve("flink_sql", main)
