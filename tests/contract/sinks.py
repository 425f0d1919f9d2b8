"""Targets of sinks that a test can read, and a batch of any rows, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

import duckdb
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from psycopg import sql
from pyspark.sql import SparkSession
from tests.services.delta import has_delta
from tests.services.iceberg import has_iceberg, iceberg_catalog
from tests.spark.batches import OnSpark
from tests.spark.feed import DAY

import muntin as mt
from muntin.sinks.memory import MemorySink
from muntin.sinks.sink import Sink
from muntin.sinks.unwritable import UnwritableRows
from muntin.spark.sinks.lake import quote_table
from muntin.testing.oracle.emitting import nulls_first


@dataclass
class Rows:
    """A batch of one Arrow table."""

    rows: pa.Table
    keys: tuple[str, ...] | None = None
    number: int = 0
    kind: str = "rejected"
    empty: bool = False
    unwritable: UnwritableRows = field(default_factory=lambda: UnwritableRows("rejected"))

    @property
    def identity(self) -> tuple[str, ...] | None:
        """Return the columns that identify a row."""
        return self.keys

    def table(self) -> pa.Table:
        """Return the rows."""
        return self.rows

    def write_natively(self, sink: Any) -> bool:
        """Return False: the sink writes the rows itself."""
        return False

    def read_unwritable(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the unwritable rows: sink, reason and values."""
        rows = self.unwritable.table().to_pylist()
        return [(row["sink"], row["why"], json.loads(row["row"])) for row in rows]


class Target(Protocol):
    """A database or folder to which sinks write."""

    def sink(self, table: str, history: str | None) -> Sink:
        """Return a sink that writes to a table."""

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the sorted rows of a table."""

    def drop(self, table: str) -> None:
        """Drop a table."""


class DuckDBTarget:
    """A file of DuckDB."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_duckdb(str(self.path), table, history=history)

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        names = ", ".join(map(_quote, columns))
        with duckdb.connect(str(self.path)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            rows = connection.execute(f"SELECT {names} FROM {_quote(table)}").fetchall()
        return sort_rows(rows)

    def drop(self, table: str) -> None:
        with duckdb.connect(str(self.path)) as connection:
            connection.execute(f"DROP TABLE {_quote(table)}")


class PostgresTarget:
    """A database of PostgreSQL."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_postgres(self.dsn, table, history=history)

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table))
        with psycopg.connect(self.dsn) as connection:
            return sort_rows(connection.execute(query).fetchall())

    def drop(self, table: str) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)))


class MemoryTarget:
    """Sinks in the memory of this process."""

    def __init__(self) -> None:
        self.sinks: dict[str, MemorySink] = {}

    def sink(self, table: str, history: str | None) -> Sink:
        # A new sink would be empty, so the same one is returned.
        sink = self.sinks.setdefault(table, mt.to_memory(history=history is not None))
        if history is not None:
            self.sinks[history] = sink
        return sink

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        sink = self.sinks[table]
        frame = sink.history() if table == "history" else sink.frame()
        return sort_rows(frame.select(columns).rows())

    def drop(self, table: str) -> None:
        self.sinks.pop(table)


class LocalDeltaTarget:
    """Delta tables in a folder, written in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_delta(self._path(table), history=history and self._path(history))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = DeltaTable(self._path(table)).to_pyarrow_table(columns=list(columns))
        return sort_rows([tuple(row.values()) for row in rows.to_pylist()])

    def drop(self, table: str) -> None:
        rmtree(self._path(table))

    def _path(self, table: str) -> str:
        return f"{self.folder}/{table}"


class DeltaTarget:
    """Delta tables in a folder, written by Spark."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def sink(self, table: str, history: str | None) -> Sink:
        return OnSpark(mt.to_delta(self._path(table), history=history and self._path(history)))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        frame = self.spark.read.format("delta").load(self._path(table)).select(*columns)
        return sort_rows([tuple(row.values()) for row in frame.toArrow().to_pylist()])

    def drop(self, table: str) -> None:
        rmtree(self._path(table))

    def _path(self, table: str) -> str:
        return f"{self.folder}/{table}"


class IcebergTarget:
    """Iceberg tables of a catalog in a folder, written by Spark."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.catalog = iceberg_catalog(spark, folder)

    def sink(self, table: str, history: str | None) -> Sink:
        return OnSpark(mt.to_iceberg(self._name(table), history=history and self._name(history)))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        frame = self.spark.table(quote_table(self._name(table))).select(*columns)
        return sort_rows([tuple(row.values()) for row in frame.toArrow().to_pylist()])

    def drop(self, table: str) -> None:
        self.spark.sql(f"DROP TABLE {quote_table(self._name(table))}")

    def _name(self, table: str) -> str:
        return f"{self.catalog}.db.{table}"


def _open_delta(request: pytest.FixtureRequest, folder: Path) -> Target:
    if not has_delta():
        pytest.skip("this Spark has no Delta")
    return DeltaTarget(request.getfixturevalue("spark"), folder)


def _open_iceberg(request: pytest.FixtureRequest, folder: Path) -> Target:
    if not has_iceberg():
        pytest.skip("this Spark has no Iceberg")
    return IcebergTarget(request.getfixturevalue("spark"), folder)


TARGETS: dict[str, Callable[[pytest.FixtureRequest, Path], Target]] = {
    "memory": lambda request, folder: MemoryTarget(),
    "duckdb": lambda request, folder: DuckDBTarget(folder / "new folder" / "out.duckdb"),
    "delta": lambda request, folder: LocalDeltaTarget(folder),
    "postgres": lambda request, folder: PostgresTarget(
        request.getfixturevalue("postgres").database()
    ),
    "delta-spark": _open_delta,
    "iceberg-spark": _open_iceberg,
}
"""The targets whose sinks must fulfil the contract, by name."""


def sort_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return sorted rows, NULL first, with times as seconds since the tests' first day."""
    converted = [
        tuple((v - DAY).total_seconds() if hasattr(v, "tzinfo") else v for v in row) for row in rows
    ]
    return sorted(converted, key=nulls_first)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
