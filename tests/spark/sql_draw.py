"""Random expressions and queries in Spark's SQL, by seed: every operator, odd spacing, odd names.

Whatever is drawn has one type and is defined for every row, so that Spark neither refuses it nor
fails over it: numbers stay small, divisors aren't zero, floats are sums of few powers of two.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# What may stand between two words: something must, or nothing need.
GAP, NONE = "\x00", "\x01"
_GAPS = (" ",) * 12 + ("  ", "\n", "\t", " /* a, b) */ ", " -- it's (\n", "\n\n ")

COLUMNS = {
    "int": ["v", "g", "`odd name`", "`select`", "st.f", "st.inner.f", "`st`.`f`", "ar[0]", "ar[g]"],
    "float": ["w", "st.inner.w"],
    "bool": ["b", "c"],
    "text": ["s", "k", "st.s", "`it's`", "texts[0]", "m['a']"],
}
QUALIFIED = {
    "int": ["t.v", "T.g", "t.`odd name`", "t.st.f", "`t`.v", "t.ar[1]"],
    "float": ["t.w"],
    "bool": ["t.b", "T . c"],
    "text": ["t.s", "t.st.s", "t.m['b']"],
}
LITERALS = {
    "int": ["0", "1", "2", "7", "-3", "+4", "1L", "3Y", "(5)"],
    "float": ["0.5D", "2e0", "-1.5D", "1.25E1", ".25D"],
    "bool": ["true", "FALSE", "CAST(NULL AS BOOLEAN)"],
    "text": [
        "'x'", "'y'", '"x"', "'it''s'", "'a\\'b'", r"r'\d'", r"'\\d'", r"'\d'", "'-- x'", "'/* y'",
        "'a)'", "''", "'; '", "'a' 'b'", "'ä`'",
    ],
}  # fmt: skip


@dataclass
class Draw:
    """Draws expressions.

    Attributes:
        rng: The dice.
        columns: What may be named, by type.
        deepest: How deep expressions go.
        given: A time and an array.
    """

    rng: random.Random
    columns: dict[str, list[str]] = field(
        default_factory=lambda: {kind: names + QUALIFIED[kind] for kind, names in COLUMNS.items()}
    )
    deepest: int = 3
    given: dict[str, str] = field(default_factory=lambda: {"ts": "ts", "ar": "ar"})

    def of(self, kind: str, depth: int = 0) -> str:
        """An expression of a type."""
        if depth >= self.deepest or self.rng.random() < 0.15:
            return self.leaf(kind)
        drawn = self.rng.choice(_MADE[kind])
        return drawn(self, depth + 1)

    def leaf(self, kind: str) -> str:
        """A column, or sometimes a constant."""
        names = self.columns.get(kind)
        if not names or self.rng.random() < 0.2:
            return self.rng.choice(LITERALS[kind])
        return self.rng.choice(names)

    def column(self, kind: str) -> str:
        """A column."""
        return self.leaf(kind)

    def any(self, depth: int = 0) -> str:
        """An expression of some type."""
        return self.of(self.rng.choice(list(LITERALS)), depth)

    def list_of(self, kind: str, depth: int) -> str:
        """Some values in parentheses."""
        values = [self.of(kind, depth + 1) for _ in range(self.rng.randint(1, 3))]
        return call("", *values)

    def spaced(self, text: str) -> str:
        """A text with something between its words."""
        made = []
        for letter in text:
            if letter == GAP:
                made.append(self.rng.choice(_GAPS))
            elif letter == NONE:
                made.append(self.rng.choice(_GAPS) if self.rng.random() < 0.2 else "")
            else:
                made.append(letter)
        return "".join(made)


def words(*parts: str) -> str:
    """Words with something between them."""
    return GAP.join(parts)


def call(name: str, *arguments: str) -> str:
    """A call of a function."""
    return f"{name}({NONE}{f'{NONE},{NONE}'.join(arguments)}{NONE})"


def wrapped(text: str) -> str:
    """An expression in parentheses."""
    return f"({NONE}{text}{NONE})"


Make = Callable[[Draw, int], str]


def _binary(kind: str, *operators: str, bare: float = 0.3) -> Make:
    """Two operands, now and then without parentheses, so that ranks decide."""

    def made(draw: Draw, depth: int) -> str:
        left, right = draw.of(kind, depth), draw.of(kind, depth)
        if draw.rng.random() > bare:
            left = wrapped(left)
        if draw.rng.random() > bare:
            right = wrapped(right)
        return words(left, draw.rng.choice(operators), right)

    return made


def _form(form: str) -> Make:
    """A form with expressions for ``{int}``, leaves for ``{.int}``, what is given for ``{@ts}``."""

    def made(draw: Draw, depth: int) -> str:
        parts, rest = [], _loosened(form)
        while "{" in rest:
            before, _, rest = rest.partition("{")
            kind, _, rest = rest.partition("}")
            if kind.startswith("@"):
                drawn = draw.given[kind[1:]]
            elif kind.startswith("."):
                drawn = draw.leaf(kind[1:])
            else:
                drawn = wrapped(draw.of(kind, depth))
            # Two signs would begin a comment.
            apart = " " if before.endswith("-") and drawn.startswith("-") else ""
            parts += [before, apart, drawn]
        return "".join([*parts, rest])

    return made


def _loosened(form: str) -> str:
    """A form whose words may stand apart; what is quoted stays."""
    pieces = re.split(r"('[^']*'|`[^`]*`)", form)
    for place in range(0, len(pieces), 2):
        loose = pieces[place].replace(" ", GAP)
        pieces[place] = loose.replace("(", f"({NONE}").replace(")", f"{NONE})")
    return "".join(pieces)


def _in(kind: str) -> Make:
    def made(draw: Draw, depth: int) -> str:
        word = draw.rng.choice(["IN", "NOT IN", "in"]).replace(" ", GAP)
        return words(wrapped(draw.of(kind, depth)), word, draw.list_of(kind, depth))

    return made


_ALWAYS = [
    "CASE WHEN {bool} THEN {%} ELSE {%} END",
    "CASE WHEN {bool} THEN {%} WHEN {bool} THEN {%} END",
    "CASE {.text} WHEN 'x' THEN {%} ELSE {%} END",
    "if({bool}, {%}, {%})",
    "coalesce({%}, {%})",
    "nullif({%}, {%})",
    "array({%}, {%})[1]",
    "named_struct('q', {%}).q",
    "struct({%} AS `a b`).`a b`",
]


def _made(kind: str, *forms: str | Make) -> list[Make]:
    found: list[Make] = [_form(form.replace("{%}", f"{{{kind}}}")) for form in _ALWAYS]
    for form in forms:
        one = _form(form) if isinstance(form, str) else form
        # What is a type's own is drawn more often.
        found += [one, one]
    return found


_MADE: dict[str, list[Make]] = {
    "int": _made(
        "int", "-{int}", "- {int}", "+{int}", "~{.int}", "-{.int}", "- -{.int}", "{int} % 7",
        "{int} DIV 3", "{int} * 2", "{.int} * (1 - {.int})", "({.int} + {.int}) * 2",
        "cast({int} AS BIGINT)", "{.int}::bigint", "int({float})", "abs({int})",
        "greatest({int}, {int})", "length({text})", "size({@ar})", "position('a' IN {text})",
        "extract(MINUTE FROM {@ts})", "minute({@ts})", "element_at({@ar}, 1)",
        "{.int} << 1",
        "aggregate({@ar}, 0, (x, y) -> x + y)", "transform({@ar}, x -> -x)[0]",
        "cast({bool} AS INT)",
        "{.int} - 1 - {.int}", "-{.int} + {.int} * 2", "try_cast({text} AS INT)",
        "filter({@ar}, x -> x > 1)[0]", "{.int} | {.int} & {.int}", "{.int} ^ {.int} | 3",
        _binary("int", "+", "-"), _binary("int", "&", "|", "^"), _binary("int", "+", "|"),
    ),
    "float": _made(
        "float", "-{float}", "{float} / 2", "{float} * 2", "{int} / 4", "cast({int} AS DOUBLE)",
        "{.int}::double", "double({int})", "abs({float})", "round({float}, 1)",
        "{.float} - 1 - {.float}", "{.float} / 2 * 2", _binary("float", "+", "-"),
    ),
    "bool": _made(
        "bool", "NOT {bool}", "! {bool}", "NOT {.bool}", "{.bool} IS NULL", "{text} IS NOT NULL",
        "{bool} IS TRUE", "{bool} IS NOT FALSE", "{bool} IS UNKNOWN", "{.bool} = false",
        "{int} IS DISTINCT FROM {int}", "{text} IS NOT DISTINCT FROM {text}", "{int} <=> {int}",
        "{int} == {int}", "{int} != {int}", "{float} <> {float}", "{int} BETWEEN {int} AND {int}",
        "{.int} NOT BETWEEN {.int} AND {.int} + 2", "{text} LIKE 'a%'", "{text} NOT LIKE '%x_'",
        "{text} LIKE '%!_%' ESCAPE '!'", r"{text} LIKE '\%%'", "{text} RLIKE '[xy]+'",
        "{text} ILIKE 'X%'", "startswith({text}, 'x')", "exists({@ar}, x -> x > {.int})",
        "array_contains({@ar}, {int})", "NOT {.int} > {.int}", "{.int} > {.int} IS NULL",
        "{.int} < {.int} = {.bool}", "{.int} + {.int} > 2 AND {.bool}",
        "NOT {.bool} AND {.bool} OR {.bool}", "{@ts} > TIMESTAMP '2026-01-01 00:10:00'",
        "{@ts} - INTERVAL '5' MINUTE < TIMESTAMP '2026-01-01 00:07:00'",
        "{@ts} + INTERVAL 1 MINUTE 30 SECONDS > DATE '2026-01-01'", "{text} LIKE ANY ('a%', '%x')",
        _binary("bool", "AND", "OR"), _binary("int", "<", ">", "=", "<=", ">="),
        _binary("text", "=", "<"), _in("int"), _in("text"),
    ),
    "text": _made(
        "text", "upper({text})", "concat({text}, '-', {text})", "substring({text}, 1, 2)",
        "substring({text} FROM 1 FOR 2)", "trim({text})", "trim(BOTH 'x' FROM {text})",
        "cast({int} AS STRING)", "{.int}::string", "left({text}, 2)", "date_format({@ts}, 'mm')",
        "replace({text}, 'x', ')')", "overlay({text} PLACING 'q' FROM 1 FOR 1)",
        "{.text} || {.int}", "{.int} + {.int} || 'x'", "string({int})",
        "concat_ws(',', {text}, {text})", _binary("text", "||"),
    ),
}  # fmt: skip


def aggregate(draw: Draw) -> tuple[str, str]:
    """An aggregate of expressions over rows, and its type."""
    rng = draw.rng
    number = rng.choice(["int", "int", "float"])
    some = rng.choice(list(LITERALS))
    forms: Sequence[tuple[Callable[[], str], str]] = [
        (lambda: call(_cased(rng, "sum"), draw.of(number)), number),
        (lambda: call(_cased(rng, "avg"), draw.of(number)), "float"),
        (lambda: call(_cased(rng, "min"), draw.of(some)), some),
        (lambda: call(_cased(rng, "max"), draw.of(some)), some),
        (lambda: call(_cased(rng, "count"), draw.of(some)), "int"),
        (lambda: call("count", "*"), "int"),
        (lambda: call("count", words("DISTINCT", draw.of(some))), "int"),
        (lambda: call("count_if", draw.of("bool")), "int"),
        (lambda: call("bool_and", draw.of("bool")), "bool"),
        (lambda: call("some", draw.of("bool")), "bool"),
    ]
    made, kind = rng.choice(forms)
    text = made()
    if rng.random() < 0.35:
        condition = words("WHERE", draw.of("bool"))
        text = words(text, call("FILTER", condition))
    elif rng.random() < 0.1:
        # Ties would be anybody's choice: positions are all different.
        name = rng.choice(["max_by", "min_by"])
        text, kind = call(name, draw.of(some), rng.choice(["id", "-id", "id * -2"])), some
    return text, kind


def _cased(rng: random.Random, name: str) -> str:
    return rng.choice([name, name.upper(), name.title()])


class After(Draw):
    """Draws expressions over the groups of a query: keys and aggregates are its columns."""

    def __init__(self, rng: random.Random, before: Draw, keys: dict[str, list[str]]) -> None:
        super().__init__(rng, keys, 2, {"ts": "max(ts)", "ar": "array(1, 2, 3)"})
        self.before = before

    def leaf(self, kind: str) -> str:
        """A key, an aggregate, or sometimes a constant."""
        chance = self.rng.random()
        if chance < 0.15:
            return self.rng.choice(LITERALS[kind])
        if chance < 0.4 and self.columns.get(kind):
            return self.rng.choice(self.columns[kind])
        for _ in range(20):
            text, found = aggregate(self.before)
            if found == kind:
                return text
        return self.rng.choice(LITERALS[kind])
