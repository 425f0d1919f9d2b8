"""Where sinks write to, and what is found there; a batch of any rows, without Spark."""

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
        """What identifies a row."""
        return self.keys

    def table(self) -> pa.Table:
        """The rows."""
        return self.rows

    def write_natively(self, sink: Any) -> bool:
        """Leave it to the sink."""
        return False

    def aside(self) -> list[tuple[str, str, dict[str, Any]]]:
        """What was set aside: where, why, and the row."""
        rows = self.unwritable.table().to_pylist()
        return [(row["sink"], row["why"], json.loads(row["row"])) for row in rows]


class Place(Protocol):
    """Where sinks write to."""

    def sink(self, table: str, history: str | None) -> Sink:
        """A sink."""

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """What is in a table, in order."""

    def drop(self, table: str) -> None:
        """Drop a table."""


class DuckDBPlace:
    """A file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_duckdb(str(self.path), table, history=history)

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        names = ", ".join(map(_quoted, columns))
        with duckdb.connect(str(self.path)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.execute(f"SELECT {names} FROM {_quoted(table)}").fetchall()
        return in_order(found)

    def drop(self, table: str) -> None:
        with duckdb.connect(str(self.path)) as connection:
            connection.execute(f"DROP TABLE {_quoted(table)}")


class PostgresPlace:
    """A database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_postgres(self.dsn, table, history=history)

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table))
        with psycopg.connect(self.dsn) as connection:
            return in_order(connection.execute(query).fetchall())

    def drop(self, table: str) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)))


class MemoryPlace:
    """Sinks that live in this process."""

    def __init__(self) -> None:
        self.sinks: dict[str, MemorySink] = {}

    def sink(self, table: str, history: str | None) -> Sink:
        # What is in memory is gone after a crash, so that the same sink goes on.
        sink = self.sinks.setdefault(table, mt.to_memory(history=history is not None))
        if history is not None:
            self.sinks[history] = sink
        return sink

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        sink = self.sinks[table]
        frame = sink.history() if table == "history" else sink.frame()
        return in_order(frame.select(columns).rows())

    def drop(self, table: str) -> None:
        self.sinks.pop(table)


class LocalDeltaPlace:
    """Delta tables in a folder, written in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sink(self, table: str, history: str | None) -> Sink:
        return mt.to_delta(self._path(table), history=history and self._path(history))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = DeltaTable(self._path(table)).to_pyarrow_table(columns=list(columns))
        return in_order([tuple(row.values()) for row in rows.to_pylist()])

    def drop(self, table: str) -> None:
        rmtree(self._path(table))

    def _path(self, table: str) -> str:
        return f"{self.folder}/{table}"


class DeltaPlace:
    """Tables in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def sink(self, table: str, history: str | None) -> Sink:
        return OnSpark(mt.to_delta(self._path(table), history=history and self._path(history)))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self.spark.read.format("delta").load(self._path(table)).select(*columns)
        return in_order([tuple(row.values()) for row in found.toArrow().to_pylist()])

    def drop(self, table: str) -> None:
        rmtree(self._path(table))

    def _path(self, table: str) -> str:
        return f"{self.folder}/{table}"


class IcebergPlace:
    """Tables of a catalog in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.catalog = iceberg_catalog(spark, folder)

    def sink(self, table: str, history: str | None) -> Sink:
        return OnSpark(mt.to_iceberg(self._name(table), history=history and self._name(history)))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self.spark.table(quote_table(self._name(table))).select(*columns)
        return in_order([tuple(row.values()) for row in found.toArrow().to_pylist()])

    def drop(self, table: str) -> None:
        self.spark.sql(f"DROP TABLE {quote_table(self._name(table))}")

    def _name(self, table: str) -> str:
        return f"{self.catalog}.db.{table}"


def _open_delta(request: pytest.FixtureRequest, folder: Path) -> Place:
    if not has_delta():
        pytest.skip("this Spark has no Delta")
    return DeltaPlace(request.getfixturevalue("spark"), folder)


def _open_iceberg(request: pytest.FixtureRequest, folder: Path) -> Place:
    if not has_iceberg():
        pytest.skip("this Spark has no Iceberg")
    return IcebergPlace(request.getfixturevalue("spark"), folder)


PLACES: dict[str, Callable[[pytest.FixtureRequest, Path], Place]] = {
    "memory": lambda request, folder: MemoryPlace(),
    "duckdb": lambda request, folder: DuckDBPlace(folder / "new folder" / "out.duckdb"),
    "delta": lambda request, folder: LocalDeltaPlace(folder),
    "postgres": lambda request, folder: PostgresPlace(
        request.getfixturevalue("postgres").database()
    ),
    "delta-spark": _open_delta,
    "iceberg-spark": _open_iceberg,
}
"""The sinks that are held to the contract, by name."""


def in_order(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in order, NULL first, moments as seconds of the day that they are about."""
    rows = [
        tuple((v - DAY).total_seconds() if hasattr(v, "tzinfo") else v for v in row)
        for row in found
    ]
    return sorted(rows, key=nulls_first)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
