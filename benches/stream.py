"""The formula stream: rows that every engine can compute for itself.

``h = (i*1103515245 + 12345) mod 2^31; k = floor(h/256) mod K; v = i*48271 mod 1000;
ts = t0 + floor(1000*i/R)`` milliseconds. A far-future sentinel closes the tail and is in no
checksum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

T0_MS = 1_700_000_000_000
"""Event time of row 0: a whole multiple of 10 s, four days before a 10-day boundary."""

SENTINEL_AFTER_MS = 30 * 86_400_000
"""How far past the last row the sentinel lies."""

SHUFFLE_BLOCK = 1_000
LATE_BY_MS = 30_000
LATE_ONE_IN = 100

DATA = Path(__file__).resolve().parent / ".data"


@dataclass(frozen=True)
class Stream:
    """Which rows arrive, in which order, cut into which batches.

    Attributes:
        keys: K, the number of keys.
        per_second: R, rows per second of event time.
        rows: Number of rows, the sentinel not counted.
        batch: Rows of one file, which is one micro-batch.
        disordered: Whether blocks of 1000 events are shuffled and 1 % is late by 30 s.
        load_keys: Rows that come first, one for each key ``0 .. load_keys-1``, in batches of
            ``load_batch``; 0 for none.
        load_batch: Rows of one loading file.
    """

    keys: int
    per_second: int
    rows: int
    batch: int
    disordered: bool = False
    load_keys: int = 0
    load_batch: int = 1_000_000

    @property
    def last_ms(self) -> int:
        """No row but the sentinel has a greater event time."""
        return T0_MS + 1000 * self.rows // self.per_second

    @property
    def sentinel_ms(self) -> int:
        """Event time of the row that closes the tail."""
        return self.last_ms + SENTINEL_AFTER_MS

    @property
    def folder(self) -> Path:
        """Where the Parquet files of this stream lie."""
        order = "disordered" if self.disordered else "ordered"
        load = f"-load{self.load_keys}" if self.load_keys else ""
        name = f"k{self.keys}-r{self.per_second}-n{self.rows}-b{self.batch}-{order}{load}"
        return DATA / name

    @property
    def parts(self) -> str:
        """A glob of all files that hold formula rows, the sentinel with them where it fits."""
        return str(self.folder / "part-*.parquet")

    @property
    def everything(self) -> str:
        """A glob of all files, a sentinel that stands apart included."""
        return str(self.folder / "*.parquet")

    def select_sql(self, start: int, stop: int) -> str:
        """A DuckDB query for the rows at stream positions ``[start, stop)``, in order."""
        index = "p"
        if self.disordered:
            block = SHUFFLE_BLOCK
            index = f"p//{block}*{block} + (p%{block}*377+91)%{block}"
        time = f"{T0_MS} + 1000*i//{self.per_second}"
        if self.disordered:
            time += f" - if(h%{LATE_ONE_IN}=37, {LATE_BY_MS}, 0)"
        return (
            f"SELECT (h//256%{self.keys})::BIGINT k, (i*48271%1000)::BIGINT v,"
            f" make_timestamp(({time})*1000) ts"
            f" FROM (SELECT i, (i*1103515245+12345)%2147483648 h"
            f" FROM (SELECT ({index})::BIGINT i FROM range({start}, {stop}) s(p)))"
        )

    def load_sql(self, start: int, stop: int) -> str:
        """A DuckDB query for the loading rows of keys ``[start, stop)``."""
        return (
            f"SELECT p::BIGINT k, (p%1000)::BIGINT v, make_timestamp({T0_MS}000::BIGINT) ts"
            f" FROM range({start}, {stop}) s(p)"
        )

    def sentinel_sql(self) -> str:
        """A DuckDB query for the one row that closes the tail."""
        return f"SELECT 0::BIGINT k, 0::BIGINT v, make_timestamp({self.sentinel_ms}000::BIGINT) ts"

    def files(self) -> Iterator[tuple[str, str]]:
        """Name and DuckDB query of each file, in the order of arrival."""
        queries = [
            self.load_sql(start, min(start + self.load_batch, self.load_keys))
            for start in range(0, self.load_keys, self.load_batch)
        ]
        queries += [
            self.select_sql(start, min(start + self.batch, self.rows))
            for start in range(0, self.rows, self.batch)
        ]
        apart = self.load_keys > 0
        if not apart:
            queries[-1] += " UNION ALL " + self.sentinel_sql()
        for number, query in enumerate(queries):
            yield f"part-{number:05d}.parquet", query
        if apart:
            yield "sentinel.parquet", self.sentinel_sql()
