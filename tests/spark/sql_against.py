"""Runs random statements with muntin and Spark SQL: the rows, or the refused places, must agree.

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
from tests.spark.sql_pairs import Pairs, draw_pairs

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
# Spark's analysis has bugs, which raise errors of Java.
FAILURES = (PySparkException, Py4JJavaError)
_KEYS = {"text": "'x'", "int": "0", "bool": "false"}


@dataclass
class Statement:
    """A query that muntin and Spark run.

    Attributes:
        items: Items of its select list, each with a name.
        grouped: Its keys.
        where: Condition on rows.
        having: Condition on groups.
        form: The form in which muntin's statement names the windows.
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
        """Return the statement with some of its items."""
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
        select_items = [*items, *(f"{bound} AS w{i}" for i, bound in enumerate(bounds))]
        where = "" if self.where is None else f" WHERE {self.where}"
        having = "" if self.having is None else f" HAVING {self.having}"
        grouped = ", ".join([*self.grouped, windows])
        return f"SELECT {', '.join(select_items)} FROM {source}{where} GROUP BY {grouped}{having}"


def draw_statement(rng: random.Random, columns: int) -> Statement:
    """Draw a statement."""
    row_draw = Draw(rng)
    keys: dict[str, list[str]] = {}
    grouped, items = [], []
    for number in range(rng.choice([1, 1, 2])):
        kind = rng.choice(list(_KEYS))
        text = "k" if rng.random() < 0.2 else f"coalesce({row_draw.of(kind, 1)}, {_KEYS[kind]})"
        if text == "k":
            kind, text = "text", rng.choice(["k", "t.k", "`k`"])
        elif kind == "int" and rng.random() < 0.4:
            text = words("g", rng.choice(["%", "+", "-", "*"]), "2")
        keys.setdefault(kind, []).append(text)
        grouped.append(row_draw.add_spaces(text))
        items.append(f"{row_draw.add_spaces(text)} AS k{number}")
    group_draw = After(rng, row_draw, keys)
    items += [f"{row_draw.add_spaces(group_draw.any())} AS c{number}" for number in range(columns)]
    where = row_draw.add_spaces(row_draw.of("bool")) if rng.random() < 0.5 else None
    having = row_draw.add_spaces(group_draw.of("bool")) if rng.random() < 0.3 else None
    size = rng.choice([(10, 10), (10, 5), (7, 7), (30, 30)])
    return Statement(items, grouped, where, having, rng.choice(["call", "window"]), size)


@dataclass
class Against:
    """Compares statements with Spark SQL.

    Attributes:
        spark: The session.
        differences: Descriptions of what differed.
        lenient: Statements that only Spark refuses; its parser refuses some that it documents.
        counts: Number of expressions by outcome: the same, refused, failed in Spark.
        failures: Statements that weren't compared, since Spark fails to run them.
    """

    spark: SparkSession
    differences: list[str] = field(default_factory=list)
    lenient: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.frame = self.spark.sql(ROWS).coalesce(1).cache()
        self.frame.createOrReplaceTempView("t")

    def compare(self, statement: Statement | Pairs) -> None:
        """Run a statement with muntin and with Spark, and note differences."""
        keys = [item for item in statement.items if " AS k" in item]
        items = [item for item in statement.items if item not in keys]
        if not self._is_accepted(statement, keys, "keys, WHERE or HAVING"):
            return
        items = [item for item in items if self._is_accepted(statement, [*keys, item], item)]
        items = self._select_computable(statement, keys, items)
        text = statement.text([*keys, *items])
        try:
            theirs = self._rows(self.spark.sql(statement.text([*keys, *items], theirs=True)))
        except FAILURES as error:
            # Spark can't compute a key or a condition.
            self.counts["failed in Spark"] += 1
            self.failures.append(f"{text!r}: {str(error).strip().splitlines()[0]}")
            return
        try:
            ours = self._rows(mt.sql(self.spark, text).results)
        except Exception as error:
            if isinstance(error, FAILURES) and not theirs:
                # A HAVING that is never true leaves nothing to compute, and so nothing to fail.
                self.failures.append(f"{text!r}: {str(error).strip().splitlines()[0]}")
                return
            self._note_difference(statement, [*keys, *items], f"fails: {str(error)[:600]}")
            return
        self._compare(statement, [*keys, *items], ours, theirs)

    def _select_computable(
        self, statement: Statement | Pairs, keys: list[str], items: list[str]
    ) -> list[str]:
        """Return the items of which Spark can compute all rows."""
        if not items:
            return []
        text = statement.text([*keys, *items], theirs=True)
        try:
            self.spark.sql(text).collect()
        except FAILURES as error:
            if len(items) == 1:
                self.counts["failed in Spark"] += 1
                self.failures.append(f"{text!r}: {str(error).strip().splitlines()[0]}")
                return []
            half = len(items) // 2
            parts = items[:half], items[half:]
            return [
                item for part in parts for item in self._select_computable(statement, keys, part)
            ]
        return items

    def _is_accepted(self, statement: Statement | Pairs, items: list[str], new: str) -> bool:
        """Return whether both accept a statement; note it if only one does."""
        ours = self._compile(statement.text(items), new)
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

    def _compile(self, text: str, new: str) -> bool:
        try:
            compile_query(text)
        except mt.SqlError as error:
            self.counts[f"refused: {error.problem[:60]}"] += 1
            at = text.find(new)
            if at >= 0 and not at <= error.span[0] <= at + len(new):
                self.differences.append(f"the caret stands elsewhere:\n{error}\n")
            return False
        return True

    def _bind(self, statement: Statement | Pairs, items: list[str], theirs: str) -> None:
        """Check that muntin refuses, with an error of its own, a statement that Spark refuses."""
        text = statement.text(items)
        try:
            mt.sql(self.spark, text)
        except mt.SqlError as error:
            at = (text.find(items[-1]), text.find(items[-1]) + len(items[-1]))
            if len(items) > len(statement.grouped) and not at[0] <= error.span[0] <= at[1]:
                self.differences.append(f"the caret stands elsewhere:\n{error}\n")
            return
        except Exception as error:
            self._note_difference(statement, items, f"fails: {str(error)[:600]}")
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
        keys = [name for name in names if name.startswith("k")]
        by = [*keys, *statement.bounds]
        by_key = {tuple(row[name] for name in by): row for row in ours}
        spark_by_key = {tuple(row[name] for name in by): row for row in theirs}
        if by_key.keys() != spark_by_key.keys() or len(by_key) != len(ours):
            extra = [
                sorted(map(str, a.keys() - b.keys()))[:3]
                for a, b in ((by_key, spark_by_key), (spark_by_key, by_key))
            ]
            self._note_difference(statement, items[: len(keys)], f"gives other groups: {extra}")
            return
        for name, item in zip(names, items, strict=True):
            wrong = [
                key
                for key in spark_by_key
                if not is_same(by_key[key][name], spark_by_key[key][name])
            ]
            if wrong:
                problem = (
                    f"is {by_key[wrong[0]][name]!r}, in Spark {spark_by_key[wrong[0]][name]!r}"
                )
                self._note_difference(statement, [*items[: len(keys)], item], problem)
            else:
                self.counts["same"] += 1

    def _note_difference(
        self, statement: Statement | Pairs, items: list[str], problem: str
    ) -> None:
        self.differences.append(f"{items[-1]}\n  {problem}\n  in {statement.text(items)!r}\n")


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, but for differences from the order of a sum."""
    if isinstance(one, float) and isinstance(other, float):
        are_nan = math.isnan(one) and math.isnan(other)
        return are_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def search(against: Against, seeds: Sequence[int], columns: int = 24) -> None:
    """Compare the statements of some seeds with Spark."""
    for seed in seeds:
        against.compare(draw_statement(random.Random(seed), columns))
        against.compare(draw_pairs(random.Random(seed), columns // 2))


def main() -> None:
    """Search for differences for some minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    # Spark's parser caches what it has learned from each unusual statement.
    session = mt.session("muntin-sql-against", master="local[2]", spark__driver__memory="4g")
    against, end, seed, count = (
        Against(session),
        time.monotonic() + arguments.minutes * 60,
        arguments.seed,
        0,
    )
    while time.monotonic() < end:
        search(against, [seed])
        seed += 1
        for difference in against.differences[count:]:
            print(f"seed {seed - 1}: {difference}", flush=True)
        count = len(against.differences)
        for statement in (*against.failures, *against.lenient):
            print(f"seed {seed - 1}: not compared: {statement[-1500:]}", flush=True)
        against.failures.clear(), against.lenient.clear()
        if seed % 10 == 0:
            print(dict(against.counts), flush=True)
    print(dict(against.counts), f"seeds {arguments.seed} to {seed - 1}, {count} differ", flush=True)


if __name__ == "__main__":
    main()
