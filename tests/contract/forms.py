"""The forms of a store's rows, each with a way to restart it and to fail in its flush."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
import rocksdict
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from rocksdict import WriteBatch

from muntin.spark.host.state import SparkBlobs
from muntin.spark.stores import SparkState, spark_state
from muntin.state.blobs import MemoryBlobs
from muntin.stores import Image, KeyValue
from muntin.stores.kv import MemoryKeyValue
from muntin.stores.paged import PagedKeyValue
from muntin.stores.rocks import RocksKeyValue

# So small that a few rows make several pages.
PAGE_BYTES = 64


class PulledPlugError(Exception):
    """The error with which a test interrupts a flush."""


class Form(Protocol):
    name: str
    slow: bool

    def open(self) -> KeyValue:
        """Open the rows as of the last flush, as a new process does."""

    def failing(self, write: int) -> Any:
        """Make a flush fail at its write of this number, within a context."""


class MemoryForm:
    name, slow = "memory", False

    def __init__(self, folder: Path) -> None:
        self.image = Image()

    def open(self) -> KeyValue:
        return MemoryKeyValue(self.image, page_bytes=PAGE_BYTES)

    @contextmanager
    def failing(self, write: int) -> Iterator[None]:
        def fail(*_: Any) -> None:
            raise PulledPlugError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Image, "replace", fail)
            yield


class RocksForm:
    name, slow = "rocks", True

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "rocks"
        self.last: RocksKeyValue | None = None

    def open(self) -> KeyValue:
        if self.last is not None:
            self.last.close()  # one process at a time; nothing is written by closing
        self.last = RocksKeyValue(self.folder, sync=False)
        return self.last

    @contextmanager
    def failing(self, write: int) -> Iterator[None]:
        def batch(raw_mode: bool) -> BreakingBatch:
            return BreakingBatch(WriteBatch(raw_mode=raw_mode), write)

        assert self.last is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rocksdict, "WriteBatch", batch)
            rows = self.last._rows
            patch.setattr(rows, "database", Unwrapping(rows.database))
            yield


class BreakingBatch:
    """A write batch that fails after a number of rows."""

    def __init__(self, real: WriteBatch, most: int) -> None:
        self.real = real
        self.left = most

    def put(self, key: bytes, value: bytes) -> None:
        if self.left == 0:
            raise PulledPlugError
        self.left -= 1
        self.real.put(key, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class Unwrapping:
    """A database that accepts such a batch."""

    def __init__(self, real: rocksdict.Rdict) -> None:
        self.real = real

    def write(self, batch: BreakingBatch, options: Any) -> None:
        self.real.write(batch.real, options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class BreakingBlobs(MemoryBlobs):
    """Blobs without transactions: each write is committed by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.numbers: set[int] = set()

    def save(self, manifest: str) -> None:
        self._write()
        super().save(manifest)

    def put(self, number: int, blob: bytes) -> None:
        assert number not in self.numbers, "a number is never written twice"
        self._write()
        self.numbers.add(number)
        super().put(number, blob)

    def _write(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise PulledPlugError
            self.left -= 1


class PagedForm:
    name, slow = "paged", False

    def __init__(self, folder: Path) -> None:
        self.blobs = BreakingBlobs()

    def open(self) -> KeyValue:
        return PagedKeyValue(self.blobs, page_bytes=PAGE_BYTES)

    @contextmanager
    def failing(self, write: int) -> Iterator[None]:
        self.blobs.left = write
        try:
            yield
        finally:
            self.blobs.left = None


class Holder(StatefulProcessor):
    """A processor that only holds its state, which the tests use."""

    state: SparkState

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = spark_state(handle, page_bytes=PAGE_BYTES)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        yield from ()

    def close(self) -> None:
        pass


class StateForm:
    """The state of one key in Spark's own test harness; tests/spark has the real one."""

    name, slow = "state", False

    def __init__(self, folder: Path) -> None:
        holder = Holder()
        # Spark 4.1 doesn't have it.
        from pyspark.sql.streaming import TwsTester

        TwsTester(holder).test("key", [])
        self.state = holder.state

    def open(self) -> KeyValue:
        return self.state.open()

    @contextmanager
    def failing(self, write: int) -> Iterator[None]:
        left = write

        def fail_after(real: Any) -> Any:
            def write_or_fail(*arguments: Any) -> None:
                nonlocal left
                if left == 0:
                    raise PulledPlugError
                left -= 1
                real(*arguments)

            return write_or_fail

        with pytest.MonkeyPatch.context() as patch:
            for method in ("put", "save"):
                patch.setattr(SparkBlobs, method, fail_after(getattr(SparkBlobs, method)))
            yield


FORMS: tuple[type[Any], ...] = (MemoryForm, RocksForm, PagedForm, StateForm)
