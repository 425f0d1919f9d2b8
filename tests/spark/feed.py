"""A folder of files that a stream reads one a batch, and the windows that DuckDB computes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

DAY = datetime(2026, 1, 1, tzinfo=UTC)
STAMP = pa.timestamp("us", tz="UTC")
MESSAGE = pa.schema(
    [("id", pa.int64()), ("key", pa.string()), ("at", STAMP), ("value", pa.int64())]
)

_WINDOWS = """
    WITH messages AS (SELECT *, epoch_us("at") AS time FROM read_parquet($files)),
    starts AS (
        SELECT DISTINCT unnest(range((time - $size) // $slide * $slide, time + 1, $slide)) AS start
        FROM messages
    )
    SELECT key, start, count(*), sum(value), max(value)
    FROM messages JOIN starts ON time >= start AND time < start + $size
    WHERE list_contains($but, id) IS NOT TRUE
    GROUP BY ALL ORDER BY ALL
"""


def at(seconds: float) -> datetime:
    """Return a time of the day that all of these streams are about."""
    return DAY + timedelta(seconds=seconds)


@dataclass
class Feed:
    """Parquet files under one folder, read in the order in which they were added.

    Attributes:
        folder: Their folder.
        schema: Their columns.
        files: Number of files.
    """

    folder: Path
    schema: pa.Schema = MESSAGE
    files: int = 0
    ids: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def add(self, *rows: tuple[Any, ...]) -> None:
        """Add a file of rows without ``id``, which is the number of a message."""
        numbered = [(self.ids + i, *row) for i, row in enumerate(rows)]
        self.ids += len(rows)
        columns = list(zip(*numbered, strict=True)) or [()] * len(self.schema)
        self.add_table(
            pa.table(
                [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)],
                schema=self.schema,
            )
        )

    def add_table(self, table: pa.Table) -> None:
        """Add a file; a running stream sees all of it or nothing."""
        path = self.folder / f"{self.files:04d}.parquet"
        hidden = self.folder / f"_{path.name}"
        pq.write_table(table, hidden)
        # The file source reads files in the order of their modification times.
        os.utime(hidden, (1_000_000 + self.files, 1_000_000 + self.files))
        hidden.rename(path)
        self.files += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return a stream of the files, one a batch."""
        reader = spark.readStream.schema(from_arrow_schema(self.schema))
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return a batch frame of all files."""
        return spark.read.parquet(str(self.folder))

    def windows(self, size: int, slide: int, but: Iterable[int] = ()) -> list[tuple[Any, ...]]:
        """Return the key, start, count, sum and maximum of each window, by DuckDB.

        Args:
            size: Seconds.
            slide: Seconds.
            but: The numbers of messages that don't count.
        """
        values = {
            "files": str(self.folder / "[0-9]*.parquet"),
            "size": size * 1_000_000,
            "slide": slide * 1_000_000,
            "but": list(but),
        }
        return duckdb.connect().execute(_WINDOWS, values).fetchall()


def emitted(path: Path, table: str = "windows") -> list[tuple[Any, ...]]:
    """Return the same columns of the table that a query has written."""
    query = f"SELECT key, epoch_us(window_start), n, total, most FROM {table} ORDER BY ALL"
    return rows(path, query)


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of a DuckDB file."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(query).fetchall()
