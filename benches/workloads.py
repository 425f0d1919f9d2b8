"""The cases to measure, their sizes for each peer, and the target ratios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from benches.auctions import Auctions
from benches.stream import Stream

Measure = Literal["throughput", "latency", "batch"]
"""Rows per second; seconds from event to sink; seconds of one small batch."""

UNITS: dict[str, str] = {"throughput": "rows/s", "latency": "s, p99", "batch": "s a batch"}


@dataclass(frozen=True)
class Case:
    """One stream, one query over it, and one way of measuring.

    Attributes:
        name: Unique name, ``W6-early``.
        title: Description of the case.
        keys: K of the formula.
        per_second: R of the formula.
        rows: Rows of the full run.
        batch: Rows of a micro-batch.
        size: Window length in seconds.
        slide: Distance between window starts in seconds.
        gap: Gap of sessions, in seconds; 0 if windows have a size.
        measure: Kind of measurement.
        early: Early firing: never, each second of wall clock, or each touched window in every
            batch.
        lateness: How far the watermark trails, in seconds.
        disordered: Whether the stream is shuffled and partly late.
        bursts: Whether keys come in bursts.
        pair: Whether two streams are joined by key and window, each with half of the rows.
        layout: First sort column of the state of muntin's join; empty for the default.
        load_keys: Keys put into state before the measured batches.
        seconds: Length of a wall-clock run, warm-up not counted.
        counts: Whether messages are counted and nothing else is computed.
        query: Query of Nexmark, such as ``q5``; empty for the formula stream.
        caps: Fewer rows for a slow peer: by peer name or family.
        families: Families of peers that take part, or names of single ones.
    """

    name: str
    title: str
    keys: int
    per_second: int
    rows: int
    batch: int
    size: int = 10
    slide: int = 10
    gap: int = 0
    measure: Measure = "throughput"
    early: Literal["never", "second", "batch"] = "never"
    lateness: int = 0
    disordered: bool = False
    bursts: bool = False
    pair: bool = False
    layout: str = ""
    load_keys: int = 0
    seconds: int = 0
    counts: bool = False
    query: str = ""
    caps: Mapping[str, int] = field(default_factory=dict)
    families: tuple[str, ...] = ("muntin", "spark")

    def rows_for(self, peer: str, family: str, scale: float) -> int:
        """Return the rows of one peer's full run, a multiple of 1000."""
        rows = self.caps.get(peer, self.caps.get(family, self.rows))
        if self.measure != "throughput":
            return rows
        return max(10_000, int(rows * scale) // 1000 * 1000)

    def keys_to_load(self, scale: float) -> int:
        """Return the number of keys to load into the state first."""
        return int(self.load_keys * scale)

    def stream(self, rows: int, full_rows: int, scale: float) -> Stream | Auctions:
        """Return the rows of a run.

        Args:
            rows: Rows of this run, the full number or a tenth of it.
            full_rows: Rows of the full run; a batch is never above a fifth of them.
            scale: Factor on the rows.
        """
        batch = self.batch if self.measure == "batch" else min(self.batch, full_rows // 5)
        if self.query:
            return Auctions(rows, batch, self.query)
        load = self.keys_to_load(scale)
        return Stream(
            keys=load or self.keys,
            per_second=self.per_second,
            rows=rows,
            batch=batch,
            disordered=self.disordered,
            bursts=self.bursts,
            pair=self.pair,
            load_keys=load,
        )


@dataclass(frozen=True)
class Target:
    """A ratio to reach, taken within one round.

    The ratio is figure(``case``, ``peer``) / figure(``other_case``, ``other_peer``); a figure is
    rows per second for throughput and seconds otherwise.
    """

    case: str
    other_peer: str
    bound: float
    at_least: bool = True
    peer: str = "muntin"
    other_case: str = ""

    @property
    def against(self) -> str:
        """The case on the other side."""
        return self.other_case or self.case

    def text(self) -> str:
        """Return the target in one line."""
        sign = "≥" if self.at_least else "≤"
        left = f"{self.peer} {self.case}"
        return f"{left} / {self.other_peer} {self.against} {sign} {self.bound:g}"

    def is_reached(self, ratio: float) -> bool:
        """Return whether a ratio reaches the target."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound


@dataclass(frozen=True)
class Workload:
    """A named row of the benchmark: its cases and its targets."""

    name: str
    title: str
    cases: tuple[Case, ...]
    targets: tuple[Target, ...]


ALL_FAMILIES = ("muntin", "spark", "pandas-state", "flink", "bytewax", "pathway", "ceiling")
BIG = {"rows": 5_000_000, "batch": 500_000, "keys": 10_000, "per_second": 50_000}


def _flink(case: str, heap: float, rocksdb: float = 0) -> tuple[Target, ...]:
    """Return targets against Flink SQL, with and without mini-batch."""
    targets = [Target(case, f"flink-heap{mini}", heap) for mini in ("", "-mini")]
    if rocksdb:
        targets += [Target(case, f"flink-rocksdb{mini}", rocksdb) for mini in ("", "-mini")]
    return tuple(targets)


def _spark(case: str, bound: float, at_least: bool = True) -> tuple[Target, ...]:
    """Return targets against Spark native, with either state store."""
    return tuple(Target(case, peer, bound, at_least) for peer in ("spark", "spark-heap"))


W1 = Workload(
    "W1",
    "tumbling 10 s, 10 000 keys, 50 000 rows/s, batches of 4 M rows",
    (
        Case(
            "W1",
            "tumbling 10 s",
            keys=10_000,
            per_second=50_000,
            rows=20_000_000,
            batch=4_000_000,
            caps={
                "flink": 5_000_000,
                "pathway": 2_000_000,
                "bytewax": 500_000,
                "pandas-state": 1_000_000,
            },
            families=ALL_FAMILIES,
        ),
    ),
    (
        *_spark("W1", 1.5),
        *_flink("W1", heap=1.5, rocksdb=3),
        Target("W1", "pathway", 8),
        Target("W1", "bytewax", 50),
    ),
)

W1S = Workload(
    "W1s",
    "W1 in batches of 200 000",
    (
        Case(
            "W1s",
            "tumbling 10 s, small batches",
            keys=10_000,
            per_second=50_000,
            rows=2_000_000,
            batch=200_000,
            families=("muntin", "spark"),
        ),
    ),
    _spark("W1s", 1.0),
)

W2 = Workload(
    "W2",
    "hopping 10 min by 1 s, 100 keys, 500 rows/s",
    (
        Case(
            "W2",
            "hopping 10 min by 1 s",
            keys=100,
            per_second=500,
            rows=5_000_000,
            batch=500_000,
            size=600,
            slide=1,
            caps={"flink": 1_000_000, "spark": 60_000, "pathway": 50_000, "bytewax": 10_000},
            families=("muntin", "spark", "flink", "bytewax", "pathway", "ceiling"),
        ),
    ),
    (
        *_spark("W2", 50),
        *_flink("W2", heap=5),
        Target("W2", "pathway", 100),
        Target("W2", "bytewax", 300),
    ),
)

W2K = Workload(
    "W2k",
    "hopping 60 s by 1 s, 10 000 keys, 10 000 rows/s",
    (
        Case(
            "W2k",
            "hopping 60 s by 1 s",
            keys=10_000,
            per_second=10_000,
            rows=2_000_000,
            batch=500_000,
            size=60,
            slide=1,
            caps={
                "flink-rocksdb": 500_000,
                "flink-rocksdb-mini": 500_000,
                "spark": 400_000,
            },
            families=("muntin", "spark", "flink", "ceiling"),
        ),
    ),
    (*_spark("W2k", 15), *_flink("W2k", heap=4, rocksdb=30)),
)

W3 = Workload(
    "W3",
    "sessions of 10 s, 20 001 keys in bursts of eight rounds, batches of 1 M rows",
    (
        Case(
            "W3",
            "session 10 s",
            keys=20_001,
            per_second=13_334,
            rows=5_000_000,
            batch=1_000_000,
            gap=10,
            bursts=True,
            caps={"pathway": 50_000, "bytewax": 300_000},
            families=("muntin", "spark", "flink", "bytewax", "pathway", "ceiling"),
        ),
    ),
    (
        *_spark("W3", 2),
        *_flink("W3", heap=2, rocksdb=2),
        Target("W3", "pathway", 10),
        Target("W3", "bytewax", 10),
    ),
)

PAIRS = {"keys": 100_000, "per_second": 10_000, "rows": 2_000_000, "batch": 400_000, "pair": True}

W4 = Workload(
    "W4",
    "join of two streams by key and window of 10 s, 100 000 keys, 10 000 rows/s each",
    (
        Case("W4", "join", families=("muntin", "spark", "flink", "ceiling"), **PAIRS),
        Case("W4-time", "state by time", layout="time", families=("muntin",), **PAIRS),
        Case("W4-keys", "state by keys", layout="keys", families=("muntin",), **PAIRS),
    ),
    (*_spark("W4", 3), *_flink("W4", heap=1.5, rocksdb=1.5)),
)


def _nexmark(query: str, title: str) -> Case:
    """Return a case of a Nexmark query over 200 s of events, 400 000 of them in a batch."""
    return Case(
        f"W5-{query}",
        title,
        keys=0,
        per_second=10_000,
        rows=2_000_000,
        batch=400_000,
        query=query,
        families=("muntin", "spark", "flink", "duckdb"),
    )


W5 = Workload(
    "W5",
    "Nexmark, 10 000 events/s",
    (
        _nexmark("q5", "auctions with the most bids in 10 s, every 2 s"),
        _nexmark("q7", "highest bid of every 10 s"),
        _nexmark("q8", "who came and opened an auction within 10 s"),
        _nexmark("q11", "bids in sessions of 10 s"),
        _nexmark("q12", "bids in 10 s of the wall clock"),
    ),
    tuple(
        target
        for query in ("q5", "q7", "q8", "q11", "q12")
        for case in (f"W5-{query}",)
        for target in (*_spark(case, 2), *_flink(case, heap=1, rocksdb=1))
    ),
)

W6 = Workload(
    "W6",
    "W1 with a 1000-event shuffle and 1 % late by 30 s, early firing each second",
    (
        Case("W6-ordered", "in order, no early firing", lateness=31, **BIG),
        Case("W6-disordered", "disordered, no early firing", lateness=31, disordered=True, **BIG),
        Case("W6-early", "in order, early each second", lateness=31, early="second", **BIG),
        Case(
            "W6",
            "disordered, early each second",
            lateness=31,
            disordered=True,
            early="second",
            **BIG,
        ),
    ),
    (
        Target("W6-ordered", "muntin", 1.5, False, other_case="W6-disordered"),
        Target("W6-early", "muntin", 1.5, False, other_case="W6"),
        Target("W6-ordered", "muntin", 2, False, other_case="W6-early"),
    ),
)

W7 = Workload(
    "W7",
    "W1 at 10 000 rows/s of wall clock for 60 s, trigger of 1 s: event to sink",
    (
        Case(
            "W7",
            "event to sink",
            keys=10_000,
            per_second=10_000,
            rows=600_000,
            batch=10_000,
            measure="latency",
            seconds=60,
        ),
    ),
    _spark("W7", 1.2, at_least=False),
)


def _make_batch_case(
    name: str, title: str, load_keys: int, early: Literal["never", "batch"]
) -> Case:
    """Return a case of 20 small batches on many keys in one window that never closes.

    With few keys, muntin is compared only with itself.
    """
    return Case(
        name,
        title,
        keys=load_keys,
        per_second=50_000,
        rows=200_000,
        batch=10_000,
        size=864_000,
        slide=864_000,
        measure="batch",
        early=early,
        load_keys=load_keys,
        families=("muntin",) if load_keys < 1_000_000 else ("muntin", "spark"),
    )


W8 = Workload(
    "W8",
    "5 M keys in state, batches of 10 000 rows; Spark native in update mode",
    (
        _make_batch_case("W8", "5 M keys", 5_000_000, "never"),
        _make_batch_case("W8-small", "50 K keys", 50_000, "never"),
    ),
    (
        *_spark("W8", 0.5, at_least=False),
        Target("W8", "muntin", 2, False, other_case="W8-small"),
    ),
)

W8E = Workload(
    "W8e",
    "W8, every touched window fires early in every batch; Spark native in update mode",
    (
        _make_batch_case("W8e", "5 M keys", 5_000_000, "batch"),
        _make_batch_case("W8e-small", "50 K keys", 50_000, "batch"),
    ),
    _spark("W8e", 1.0, at_least=False),
)

T1 = Workload(
    "T1",
    "an agent that counts in a table hopping 10 min by 1 min, 1000 keys, 500 events/s",
    (
        Case(
            "T1",
            "views[page] += 1",
            keys=1000,
            per_second=500,
            rows=1_000_000,
            batch=200_000,
            size=600,
            slide=60,
            counts=True,
            caps={"faust-tables": 20_000},
            families=("tables", "faust-tables"),
        ),
    ),
    (Target("T1", "faust-tables", 10, peer="muntin-tables"),),
)

_ALONE = ("muntin-batches", "muntin-single")

W9 = Workload(
    "W9",
    "W1 in one process without Spark: batches of 250 000 rows, and message by message",
    (
        Case(
            "W9",
            "tumbling 10 s, one process",
            keys=10_000,
            per_second=50_000,
            rows=5_000_000,
            batch=250_000,
            caps={"muntin-single": 500_000, "bytewax": 500_000, "faust": 200_000},
            families=("standalone", "bytewax", "faust"),
        ),
    ),
    tuple(Target("W9", other, 10, peer=own) for own in _ALONE for other in ("bytewax", "faust")),
)

WORKLOADS: dict[str, Workload] = {
    w.name: w for w in (W1, W1S, W2, W2K, W3, W4, W5, W6, W7, W8, W8E, W9, T1)
}
CASES: dict[str, Case] = {c.name: c for w in WORKLOADS.values() for c in w.cases}
