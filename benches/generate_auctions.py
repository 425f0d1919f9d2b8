"""Write the events of Nexmark once: ``python -m benches.generate_auctions CASE --rows N``."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from examples.nexmark.generator import Nexmark

from benches.auctions import PER_SECOND, SCHEMAS, TAIL_MS, Auctions, Kind
from benches.peers.command import Outcome, Run, serve

EVENTS = Nexmark(per_second=PER_SECOND)


def write(stream: Auctions) -> None:
    """Write all kinds of events, oldest modification time first, unless they are there."""
    if stream.folder.exists():
        return
    stream.folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=stream.folder.parent, prefix="writing-"))
    for name in SCHEMAS:
        write_kind(Kind(name, work), stream)
    try:
        work.rename(stream.folder)
    except OSError:
        shutil.rmtree(work)


def write_kind(kind: Kind, stream: Auctions) -> None:
    """Write the files of one kind, and the two that Flink reads."""
    kind.folder.mkdir()
    kind.halves.mkdir()
    tables = []
    files = list(stream.files())
    for number, (name, events) in enumerate(files):
        table = getattr(EVENTS, kind.name)(events.start, events.stop)
        tables.append(table)
        if number == len(files) - 1:
            table = pa.concat_tables([table, closing(table, stream.last_ms + TAIL_MS)])
        path = kind.folder / name
        write_file(table, path, number)
    # Windows over results of windows close when the results of the first closing row are emitted.
    second_row = closing(table, stream.last_ms + 2 * TAIL_MS)
    write_file(second_row, kind.folder / "part-closing.parquet", len(files))
    events_table = pa.concat_tables(tables)
    ms = events_table["time"].cast(pa.int64()).to_numpy() // 1000
    events_table = events_table.drop_columns("time").append_column("ms", pa.array(ms))
    for half in (0, 1):
        every_other = pa.array(range(half, events_table.num_rows, 2), pa.int64())
        pq.write_table(events_table.take(every_other), kind.halves / f"half-{half}.parquet")


def write_file(table: pa.Table, path: Path, number: int) -> None:
    """Write a file whose row groups are tasks for Spark's two cores."""
    pq.write_table(table, path, row_group_size=max(2048, table.num_rows // 8))
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def closing(table: pa.Table, ms: int) -> pa.Table:
    """Return the closing row: its numbers are negative, and its time is far ahead."""
    columns = []
    for number, field in enumerate(table.schema):
        text, time = pa.types.is_string(field.type), pa.types.is_timestamp(field.type)
        value = "" if text else ms * 1000 if time else -2 - number
        columns.append(pa.array([value]).cast(field.type))
    return pa.Table.from_arrays(columns, schema=table.schema)


def main(run: Run) -> Outcome:
    """Write the files and return the seconds that it took."""
    started = time.perf_counter()
    assert isinstance(run.stream, Auctions)
    write(run.stream)
    return Outcome(time.perf_counter() - started)


if __name__ == "__main__":
    serve("generate_auctions", main)
