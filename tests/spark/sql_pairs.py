"""Random joins in Spark's SQL, by seed: bounds of time, conditions, select lists, every kind."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.spark.sql_draw import QUALIFIED, Draw, words, wrap

HOWS = ["JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN"]
_EQUAL = ["a.g = b.g", "b.k = a.k", "a.v = b.v", "a.`odd name` = b.`odd name`", "A.s = B.s"]
_INTERVALS = [
    "INTERVAL '{n}' MINUTE", "INTERVAL {n} MINUTES", "INTERVAL '00:{n:02}' HOUR TO MINUTE",
    "INTERVAL {n} SECONDS", "INTERVAL '{n}' minute",
]  # fmt: skip


@dataclass
class Pairs:
    """A join that muntin and Spark run.

    Attributes:
        items: Items of its select list, each with a name.
        how: Kind of join.
        near: Conditions that bound pairs in time.
        on: Other conditions on pairs.
        where: Condition on rows.
        comma: Whether the conditions are in ``WHERE``, after ``FROM t a, t b``.
    """

    items: list[str]
    how: str
    near: list[str]
    on: list[str]
    where: str | None
    comma: bool

    bounds = ()
    grouped = ("a.id", "b.id")

    def text(self, items: list[str], *, theirs: bool = False) -> str:
        """Return the statement with some of its items; it is the same for Spark."""
        conditions = " AND ".join([*self.on, *self.near])
        select = f"SELECT {', '.join(items)} FROM"
        if self.comma:
            return f"{select} t a, t AS b WHERE {conditions}"
        where = "" if self.where is None else f" WHERE {self.where}"
        return f"{select} t AS a {self.how} t b ON {conditions}{where}"


def draw_pairs(rng: random.Random, columns: int) -> Pairs:
    """Draw a join."""
    both = {kind: [_of(rng, name) for name in names] for kind, names in QUALIFIED.items()}
    draw = Draw(rng, both, 2, {"ts": rng.choice(["a.ts", "b.ts"]), "ar": "b.ar"})
    how = rng.choice(HOWS)
    inner = how in HOWS[:2]
    on = [rng.choice(_EQUAL)]
    if rng.random() < 0.2:
        on.append("a.c = b.c")
    if rng.random() < (0.6 if inner else 0.05):
        on.append(wrap(draw.of("bool")))
    rng.shuffle(on)
    where = draw.of("bool") if rng.random() < 0.5 else None
    items = ["a.id AS k0", "b.id AS k1"]
    items += [f"{draw.add_spaces(draw.any())} AS c{number}" for number in range(columns)]
    comma = inner and rng.random() < 0.3
    near = [draw.add_spaces(part) for part in _near(rng, apart=inner)]
    where = where and draw.add_spaces(where)
    return Pairs(items, how, near, [draw.add_spaces(part) for part in on], where, comma)


def _of(rng: random.Random, name: str) -> str:
    """Return a column with the name of either side."""
    return rng.choice("ab") + name[name.index(".") if "`t`" not in name else 3 :].lstrip()


def _near(rng: random.Random, *, apart: bool) -> list[str]:
    """Draw conditions that bound the time between partners on both sides."""
    time, other_time = rng.choice([("a.ts", "b.ts"), ("b.ts", "a.ts")])
    low = rng.randint(0, 9)
    high = rng.randint(0, 9)
    if apart and rng.random() < 0.2:
        low = -rng.randint(1, 5)
        high = rng.randint(-low, 12)
    before, after = _shift(rng, other_time, -low), _shift(rng, other_time, high)
    form = rng.randrange(4)
    if form == 0:
        return [words(time, "BETWEEN", before, "AND", after)]
    parts = [
        words(time, rng.choice([">=", ">"]), before),
        words(time, rng.choice(["<=", "<"]), after),
    ]
    if form == 1:
        parts = [words(after, rng.choice([">=", ">"]), time), wrap(parts[0])]
    if form == 2:
        # The same from the other side.
        shifted = _shift(rng, time, low)
        parts[0] = words(shifted, rng.choice([">=", ">"]), other_time)
    return parts


def _shift(rng: random.Random, time: str, by: int) -> str:
    """Return a time some minutes (or seconds) later."""
    if by == 0:
        return time
    interval = rng.choice(_INTERVALS).format(n=abs(by))
    if by > 0 and rng.random() < 0.3:
        return words(interval, "+", time)
    return words(time, "+" if by > 0 else "-", interval)
