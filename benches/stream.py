"""The formula stream: rows that every engine can compute for itself.

``h = (i*1103515245 + 12345) mod 2^31; k = floor(h/256) mod K; v = i*48271 mod 1000;
ts = t0 + floor(1000*i/R)`` milliseconds. A far-future sentinel closes the last windows,
and no checksum includes it.

In **bursts** the keys alternate: a round of one second has a row of every key ``k`` except those
with ``(k + round) mod 3 = 0``, in the order of the keys. After eight rounds, no row comes for 32 s.
So a key has one session per burst, of five or six rows.

A **pair** of streams for a join has half of the rows on each side. The right side's keys and values
are those of row ``i + SHIFT``, so each row matches about one other within ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

T0_MS = 1_700_000_000_000
"""Event time of row 0: a whole multiple of 10 s, four days before a 10-day boundary."""

SENTINEL_AFTER_MS = 30 * 86_400_000
"""The distance from the last row to the sentinel."""

SHUFFLE_BLOCK = 1_000
LATE_BY_MS = 30_000
LATE_ONE_IN = 100

ROUNDS_OF_A_BURST = 8
BURST_EVERY_MS = 40_000

SHIFT = 123_456_789
"""The number of rows by which the right side of a pair is ahead in keys and values."""

DATA = Path(__file__).resolve().parent / ".data"


@dataclass(frozen=True)
class Stream:
    """The rows of a stream, their order of arrival, and their batches.

    Attributes:
        keys: K, the number of keys.
        per_second: R, rows per second of event time.
        rows: Number of rows, the sentinel not counted.
        batch: Rows of one file, which is one micro-batch.
        disordered: Whether blocks of 1000 events are shuffled and 1 % is late by 30 s.
        bursts: Whether keys come in bursts; ``keys`` is a multiple of 3 then, and ``per_second``
            two thirds of it.
        load_keys: Rows that come first, one for each key ``0 .. load_keys-1``, in batches of
            ``load_batch``; 0 for none.
        load_batch: Rows of one loading file.
        pair: Whether these are two streams to join, each with half of the rows.
        shift: Number of rows by which its keys and values are ahead.
    """

    keys: int
    per_second: int
    rows: int
    batch: int
    disordered: bool = False
    bursts: bool = False
    load_keys: int = 0
    load_batch: int = 1_000_000
    pair: bool = False
    shift: int = 0

    @property
    def sides(self) -> tuple[Stream, ...]:
        """The two sides of a pair; any other stream is its own only side."""
        if not self.pair:
            return (self,)
        left = replace(self, rows=self.rows // 2, batch=self.batch // 2, pair=False)
        return left, replace(left, shift=SHIFT)

    @property
    def schema(self) -> str:
        """The columns in Spark's DDL."""
        return "k long, v long, ts timestamp"

    @property
    def last_ms(self) -> int:
        """The greatest event time, except for the sentinel."""
        return int(self.columns(self.sides[0].rows)[2])

    def columns(self, i: Any) -> tuple[Any, Any, Any]:
        """Return the key, value and event time (ms) of rows in order of arrival.

        Args:
            i: The number of a row, or an array of 64-bit numbers.
        """
        ahead = i + self.shift
        v = ahead * 48271 % 1000
        if not self.bursts:
            k = (ahead * 1103515245 + 12345) % 2147483648 // 256 % self.keys
            return k, v, T0_MS + 1000 * i // self.per_second
        round_number, number = i // self.per_second, i % self.per_second
        odd, dropped = number % 2, (3 - round_number % 3) % 3
        k = 3 * (number // 2) + odd + (odd >= dropped)
        burst, second = round_number // ROUNDS_OF_A_BURST, round_number % ROUNDS_OF_A_BURST
        offset = 1000 * second + 1000 * number // self.per_second
        return k, v, T0_MS + BURST_EVERY_MS * burst + offset

    @property
    def sentinel_ms(self) -> int:
        """The event time of the row that closes the last windows."""
        return self.last_ms + SENTINEL_AFTER_MS

    @property
    def folder(self) -> Path:
        """The folder of this stream's Parquet files."""
        order = "disordered" if self.disordered else "bursts" if self.bursts else "ordered"
        load = f"-load{self.load_keys}" if self.load_keys else ""
        load += "-right" if self.shift else ""
        name = f"k{self.keys}-r{self.per_second}-n{self.rows}-b{self.batch}-{order}{load}"
        return DATA / name

    @property
    def parts(self) -> str:
        """A glob of all files with formula rows, and with the sentinel if it fits."""
        return str(self.folder / "part-*.parquet")

    @property
    def everything(self) -> str:
        """A glob of all files, with the sentinel's own."""
        return str(self.folder / "*.parquet")

    def select_sql(self, start: int, stop: int) -> str:
        """Return a DuckDB query for the rows at stream positions ``[start, stop)``, in order."""
        if self.bursts:
            return self._bursts_sql(start, stop)
        index = "p"
        if self.disordered:
            block = SHUFFLE_BLOCK
            index = f"p//{block}*{block} + (p%{block}*377+91)%{block}"
        time = f"{T0_MS} + 1000*i//{self.per_second}"
        if self.disordered:
            time += f" - if(h%{LATE_ONE_IN}=37, {LATE_BY_MS}, 0)"
        return (
            f"SELECT (h//256%{self.keys})::BIGINT k, ((i+{self.shift})*48271%1000)::BIGINT v,"
            f" make_timestamp(({time})*1000) ts"
            f" FROM (SELECT i, ((i+{self.shift})*1103515245+12345)%2147483648 h"
            f" FROM (SELECT ({index})::BIGINT i FROM range({start}, {stop}) s(p)))"
        )

    def _bursts_sql(self, start: int, stop: int) -> str:
        """Return that query for a stream in bursts."""
        time = (
            f"{T0_MS} + {BURST_EVERY_MS}*(r//{ROUNDS_OF_A_BURST})"
            f" + 1000*(r%{ROUNDS_OF_A_BURST}) + 1000*j//{self.per_second}"
        )
        return (
            f"SELECT 3*(j//2) + j%2 + (j%2 >= (3-r%3)%3)::BIGINT k, (i*48271%1000)::BIGINT v,"
            f" make_timestamp(({time})*1000) ts"
            f" FROM (SELECT i::BIGINT i, i//{self.per_second} r, i%{self.per_second} j"
            f" FROM range({start}, {stop}) s(i))"
        )

    def load_sql(self, start: int, stop: int) -> str:
        """Return a DuckDB query for the loading rows of keys ``[start, stop)``."""
        return (
            f"SELECT p::BIGINT k, (p%1000)::BIGINT v, make_timestamp({T0_MS}000::BIGINT) ts"
            f" FROM range({start}, {stop}) s(p)"
        )

    def sentinel_sql(self) -> str:
        """Return a DuckDB query for the one row that closes the last windows."""
        return f"SELECT 0::BIGINT k, 0::BIGINT v, make_timestamp({self.sentinel_ms}000::BIGINT) ts"

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield the name and DuckDB query of each file, in the order of arrival."""
        queries = [
            self.load_sql(start, min(start + self.load_batch, self.load_keys))
            for start in range(0, self.load_keys, self.load_batch)
        ]
        queries += [
            self.select_sql(start, min(start + self.batch, self.rows))
            for start in range(0, self.rows, self.batch)
        ]
        has_own_sentinel = self.load_keys > 0
        if not has_own_sentinel:
            queries[-1] += " UNION ALL " + self.sentinel_sql()
        for number, query in enumerate(queries):
            yield f"part-{number:05d}.parquet", query
        if has_own_sentinel:
            yield "sentinel.parquet", self.sentinel_sql()
