"""Random statements, run by muntin and by Spark SQL: the same rows, or a refusal at the place.

    JAVA_HOME="$(bash scripts/java.sh)" .venv/bin/python -m tests.spark.sql_against --minutes 60

prints whatever differs, as a statement that can be pasted into a test.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.sql_draw import After, Draw, words
from tests.spark.sql_pairs import Pairs, drawn_pairs

import muntin as mt
from muntin.sql.api import compile_query

ROWS = """
    SELECT id, CAST('2026-01-01' AS TIMESTAMP) + make_dt_interval(0, 0, 0, id * 41) AS ts,
        element_at(array('x', 'ab', 'y)'), CAST(id % 3 + 1 AS INT)) AS k,
        CAST(id % 3 AS INT) AS g,
        IF(id % 5 = 0, NULL, CAST(id * 7 % 11 - 4 AS INT)) AS v,
        IF(id % 7 = 0, NULL, id % 8 / 4.0D - 1) AS w,
        element_at(array(true, false, NULL), CAST(id % 3 + 1 AS INT)) AS b,
        id % 4 > 1 AS c,
        element_at(array('x', 'xy', 'a_', NULL, '', 'it''s', '12'), CAST(id % 7 + 1 AS INT)) AS s,
        array(CAST(id % 4 AS INT), IF(id % 6 = 0, NULL, 2), 3) AS ar,
        array('x', IF(id % 2 = 0, NULL, 'yy')) AS texts,
        named_struct('f', CAST(id % 6 AS INT), 's', IF(id % 4 = 0, NULL, 'xz'),
                     'inner', named_struct('f', CAST(-id % 9 AS INT), 'w', 0.5D)) AS st,
        map('a', 'x', 'b', IF(id % 2 = 0, NULL, 'q')) AS m,
        CAST(id % 13 AS INT) AS `odd name`, CAST(-(id % 3) AS INT) AS `select`, 'q' AS `it's`
    FROM range(44)
"""
# Its analysis has bugs of its own, which come as Java's errors.
FAILURES = (PySparkException, Py4JJavaError)
_KEYS = {"text": "'x'", "int": "0", "bool": "false"}


@dataclass
class Statement:
    """A query in the words of both.

    Attributes:
        items: What it selects, each under a name of its own.
        grouped: Its keys.
        where: Which rows.
        having: Which groups.
        form: How ours says which windows.
        size: The windows' length and distance, in minutes.
    """

    items: list[str]
    grouped: list[str]
    where: str | None
    having: str | None
    form: str
    size: tuple[int, int]

    bounds = ("w0", "w1")

    def text(self, items: Sequence[str], *, theirs: bool = False) -> str:
        """The statement with some of its items."""
        size, slide = self.size
        by_call = self.form == "call" and not theirs
        bounds = ["window_start", "window_end"] if by_call else ["window.start", "window.end"]
        windows = ", ".join(bounds)
        source = "t"
        if by_call:
            call, lengths = "TUMBLE", f"{size} MINUTES"
            if slide != size:
                call, lengths = "HOP", f"{slide} MINUTES, {size} MINUTES"
            source = f"TABLE({call}(TABLE t, DESCRIPTOR(ts), {lengths}))"
        else:
            windows = f"window(ts, '{size} minutes', '{slide} minutes')"
        shown = [*items, *(f"{bound} AS w{i}" for i, bound in enumerate(bounds))]
        where = "" if self.where is None else f" WHERE {self.where}"
        having = "" if self.having is None else f" HAVING {self.having}"
        grouped = ", ".join([*self.grouped, windows])
        return f"SELECT {', '.join(shown)} FROM {source}{where} GROUP BY {grouped}{having}"


def drawn(rng: random.Random, columns: int) -> Statement:
    """A statement of a seed."""
    before = Draw(rng)
    keys: dict[str, list[str]] = {}
    grouped, items = [], []
    for place in range(rng.choice([1, 1, 2])):
        kind = rng.choice(list(_KEYS))
        text = "k" if rng.random() < 0.2 else f"coalesce({before.of(kind, 1)}, {_KEYS[kind]})"
        if text == "k":
            kind, text = "text", rng.choice(["k", "t.k", "`k`"])
        elif kind == "int" and rng.random() < 0.4:
            text = words("g", rng.choice(["%", "+", "-", "*"]), "2")
        keys.setdefault(kind, []).append(text)
        grouped.append(before.spaced(text))
        items.append(f"{before.spaced(text)} AS k{place}")
    after = After(rng, before, keys)
    items += [f"{before.spaced(after.any())} AS c{place}" for place in range(columns)]
    where = before.spaced(before.of("bool")) if rng.random() < 0.5 else None
    having = before.spaced(after.of("bool")) if rng.random() < 0.3 else None
    size = rng.choice([(10, 10), (10, 5), (7, 7), (30, 30)])
    return Statement(items, grouped, where, having, rng.choice(["call", "window"]), size)


@dataclass
class Against:
    """Holds statements against Spark SQL.

    Attributes:
        spark: The session.
        found: What differed, in words.
        lenient: What only Spark refuses: its own parser trips over some of what it says it reads.
        failed: What neither was asked, since Spark fails over it.
        counts: How many expressions were the same, refused, not defined in Spark, and so on.
    """

    spark: SparkSession
    found: list[str] = field(default_factory=list)
    lenient: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.frame = self.spark.sql(ROWS).coalesce(1).cache()
        self.frame.createOrReplaceTempView("t")

    def hold(self, statement: Statement | Pairs) -> None:
        """Run a statement both ways."""
        keys = [item for item in statement.items if " AS k" in item]
        items = [item for item in statement.items if item not in keys]
        if not self._taken(statement, keys, "keys, WHERE or HAVING"):
            return
        items = [item for item in items if self._taken(statement, [*keys, item], item)]
        items = self._computed(statement, keys, items)
        text = statement.text([*keys, *items])
        try:
            theirs = self._rows(self.spark.sql(statement.text([*keys, *items], theirs=True)))
        except FAILURES as error:
            # A key or a condition is beyond it, too.
            self.counts["failed in Spark"] += 1
            self.failed.append(f"{text!r}: {str(error).strip().splitlines()[0]}")
            return
        try:
            ours = self._rows(mt.sql(self.spark, text).results)
        except Exception as error:
            if isinstance(error, FAILURES) and not theirs:
                # A HAVING that is never true leaves nothing to compute, and so nothing to fail.
                self.failed.append(f"{text!r}: {str(error).strip().splitlines()[0]}")
                return
            self._differs(statement, [*keys, *items], f"fails: {str(error)[:600]}")
            return
        self._compare(statement, [*keys, *items], ours, theirs)

    def _computed(
        self, statement: Statement | Pairs, keys: list[str], items: list[str]
    ) -> list[str]:
        """The items of which Spark computes all rows: some values are beyond it."""
        if not items:
            return []
        text = statement.text([*keys, *items], theirs=True)
        try:
            self.spark.sql(text).collect()
        except FAILURES as error:
            if len(items) == 1:
                self.counts["failed in Spark"] += 1
                self.failed.append(f"{text!r}: {str(error).strip().splitlines()[0]}")
                return []
            half = len(items) // 2
            parts = items[:half], items[half:]
            return [item for part in parts for item in self._computed(statement, keys, part)]
        return items

    def _taken(self, statement: Statement | Pairs, items: list[str], new: str) -> bool:
        """Whether both take a statement; it isn't so good where only one does."""
        ours = self._ours(statement.text(items), new)
        try:
            self.spark.sql(statement.text(items, theirs=True))
        except FAILURES as error:
            self.counts["refused by Spark"] += 1
            if ours:
                self._bind(statement, items, str(error).strip().splitlines()[0])
            return False
        if not ours:
            self.counts["refused"] += 1
        return ours

    def _ours(self, text: str, new: str) -> bool:
        try:
            compile_query(text)
        except mt.SqlError as error:
            self.counts[f"refused: {error.problem[:60]}"] += 1
            at = text.find(new)
            if at >= 0 and not at <= error.span[0] <= at + len(new):
                self.found.append(f"the caret stands elsewhere:\n{error}\n")
            return False
        return True

    def _bind(self, statement: Statement | Pairs, items: list[str], theirs: str) -> None:
        """What Spark refuses is refused by us too, and in our words."""
        text = statement.text(items)
        try:
            mt.sql(self.spark, text)
        except mt.SqlError as error:
            at = (text.find(items[-1]), text.find(items[-1]) + len(items[-1]))
            if len(items) > len(statement.grouped) and not at[0] <= error.span[0] <= at[1]:
                self.found.append(f"the caret stands elsewhere:\n{error}\n")
            return
        except Exception as error:
            self._differs(statement, items, f"fails: {str(error)[:600]}")
            return
        self.lenient.append(f"{text!r}: {theirs}")

    def _rows(self, frame: DataFrame) -> list[dict[str, Any]]:
        return [row.asDict() for row in frame.collect()]

    def _compare(
        self,
        statement: Statement | Pairs,
        items: list[str],
        ours: list[dict[str, Any]],
        theirs: list[dict[str, Any]],
    ) -> None:
        names = [item.rpartition(" AS ")[2] for item in items]
        known = [name for name in names if name.startswith("k")]
        by = [*known, *statement.bounds]
        mine = {tuple(row[name] for name in by): row for row in ours}
        right = {tuple(row[name] for name in by): row for row in theirs}
        if mine.keys() != right.keys() or len(mine) != len(ours):
            extra = [
                sorted(map(str, a.keys() - b.keys()))[:3] for a, b in ((mine, right), (right, mine))
            ]
            self._differs(statement, items[: len(known)], f"gives other groups: {extra}")
            return
        for name, item in zip(names, items, strict=True):
            wrong = [key for key in right if not same(mine[key][name], right[key][name])]
            if wrong:
                emitted = f"is {mine[wrong[0]][name]!r}, in Spark {right[wrong[0]][name]!r}"
                self._differs(statement, [*items[: len(known)], item], emitted)
            else:
                self.counts["same"] += 1

    def _differs(self, statement: Statement | Pairs, items: list[str], said: str) -> None:
        self.found.append(f"{items[-1]}\n  {said}\n  in {statement.text(items)!r}\n")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, as far as the order of a sum lets them be."""
    if isinstance(one, float) and isinstance(other, float):
        both = math.isnan(one) and math.isnan(other)
        return both or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def search(against: Against, seeds: Sequence[int], columns: int = 24) -> None:
    """Hold the statements of some seeds against Spark."""
    for seed in seeds:
        against.hold(drawn(random.Random(seed), columns))
        against.hold(drawn_pairs(random.Random(seed), columns // 2))


def main() -> None:
    """Search for as long as is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    # Spark's parser keeps what it has learned of each odd statement.
    session = mt.session("muntin-sql-against", master="local[2]", spark__driver__memory="4g")
    against, end, seed, emitted = (
        Against(session),
        time.monotonic() + given.minutes * 60,
        given.seed,
        0,
    )
    while time.monotonic() < end:
        search(against, [seed])
        seed += 1
        for one in against.found[emitted:]:
            print(f"seed {seed - 1}: {one}", flush=True)
        emitted = len(against.found)
        for one in (*against.failed, *against.lenient):
            print(f"seed {seed - 1}: not compared: {one[-1500:]}", flush=True)
        against.failed.clear(), against.lenient.clear()
        if seed % 10 == 0:
            print(dict(against.counts), flush=True)
    print(dict(against.counts), f"seeds {given.seed} to {seed - 1}, {emitted} differ", flush=True)


if __name__ == "__main__":
    main()
