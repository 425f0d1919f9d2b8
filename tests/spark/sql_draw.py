"""Random expressions and queries in Spark's SQL, by seed: every operator, odd spacing, odd names.

Every expression has one type and a value for every row, so that Spark neither refuses it nor fails:
numbers stay small, divisors aren't zero, floats are sums of few powers of two.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# Between two words there must be a gap, or there may be one.
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
        rng: Random numbers.
        columns: Names of columns, by type.
        deepest: Greatest depth of an expression.
        sources: A time and an array, by name.
    """

    rng: random.Random
    columns: dict[str, list[str]] = field(
        default_factory=lambda: {kind: names + QUALIFIED[kind] for kind, names in COLUMNS.items()}
    )
    deepest: int = 3
    sources: dict[str, str] = field(default_factory=lambda: {"ts": "ts", "ar": "ar"})

    def of(self, kind: str, depth: int = 0) -> str:
        """Draw an expression of a type."""
        if depth >= self.deepest or self.rng.random() < 0.15:
            return self.leaf(kind)
        make = self.rng.choice(_FORMS[kind])
        return make(self, depth + 1)

    def leaf(self, kind: str) -> str:
        """Draw a column, or sometimes a constant."""
        names = self.columns.get(kind)
        if not names or self.rng.random() < 0.2:
            return self.rng.choice(LITERALS[kind])
        return self.rng.choice(names)

    def column(self, kind: str) -> str:
        """Draw a column."""
        return self.leaf(kind)

    def any(self, depth: int = 0) -> str:
        """Draw an expression of some type."""
        return self.of(self.rng.choice(list(LITERALS)), depth)

    def list_of(self, kind: str, depth: int) -> str:
        """Draw some values in parentheses."""
        values = [self.of(kind, depth + 1) for _ in range(self.rng.randint(1, 3))]
        return call("", *values)

    def add_spaces(self, text: str) -> str:
        """Return a text with white space or comments between its words."""
        parts = []
        for letter in text:
            if letter == GAP:
                parts.append(self.rng.choice(_GAPS))
            elif letter == NONE:
                parts.append(self.rng.choice(_GAPS) if self.rng.random() < 0.2 else "")
            else:
                parts.append(letter)
        return "".join(parts)


def words(*parts: str) -> str:
    """Join words with gaps."""
    return GAP.join(parts)


def call(name: str, *arguments: str) -> str:
    """Return a call of a function."""
    return f"{name}({NONE}{f'{NONE},{NONE}'.join(arguments)}{NONE})"


def wrap(text: str) -> str:
    """Put an expression into parentheses."""
    return f"({NONE}{text}{NONE})"


Make = Callable[[Draw, int], str]


def _binary(kind: str, *operators: str, bare: float = 0.3) -> Make:
    """Return a form of two operands, some without parentheses, to test the precedence."""

    def make(draw: Draw, depth: int) -> str:
        left, right = draw.of(kind, depth), draw.of(kind, depth)
        if draw.rng.random() > bare:
            left = wrap(left)
        if draw.rng.random() > bare:
            right = wrap(right)
        return words(left, draw.rng.choice(operators), right)

    return make


def _form(form: str) -> Make:
    """Return a form: ``{int}`` is an expression, ``{.int}`` a leaf, ``{@ts}`` a source."""

    def make(draw: Draw, depth: int) -> str:
        parts, rest = [], _add_gaps(form)
        while "{" in rest:
            before, _, rest = rest.partition("{")
            kind, _, rest = rest.partition("}")
            if kind.startswith("@"):
                expression = draw.sources[kind[1:]]
            elif kind.startswith("."):
                expression = draw.leaf(kind[1:])
            else:
                expression = wrap(draw.of(kind, depth))
            # Two signs would begin a comment.
            space = " " if before.endswith("-") and expression.startswith("-") else ""
            parts += [before, space, expression]
        return "".join([*parts, rest])

    return make


def _add_gaps(form: str) -> str:
    """Add gaps between the words of a form, except in quotes."""
    pieces = re.split(r"('[^']*'|`[^`]*`)", form)
    for index in range(0, len(pieces), 2):
        text = pieces[index].replace(" ", GAP)
        pieces[index] = text.replace("(", f"({NONE}").replace(")", f"{NONE})")
    return "".join(pieces)


def _in(kind: str) -> Make:
    def make(draw: Draw, depth: int) -> str:
        word = draw.rng.choice(["IN", "NOT IN", "in"]).replace(" ", GAP)
        return words(wrap(draw.of(kind, depth)), word, draw.list_of(kind, depth))

    return make


_FORMS_OF_ANY_TYPE = [
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


def _list_forms(kind: str, *forms: str | Make) -> list[Make]:
    makers: list[Make] = [_form(form.replace("{%}", f"{{{kind}}}")) for form in _FORMS_OF_ANY_TYPE]
    for form in forms:
        make = _form(form) if isinstance(form, str) else form
        # The forms of one type are drawn more often.
        makers += [make, make]
    return makers


_FORMS: dict[str, list[Make]] = {
    "int": _list_forms(
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
    "float": _list_forms(
        "float", "-{float}", "{float} / 2", "{float} * 2", "{int} / 4", "cast({int} AS DOUBLE)",
        "{.int}::double", "double({int})", "abs({float})", "round({float}, 1)",
        "{.float} - 1 - {.float}", "{.float} / 2 * 2", _binary("float", "+", "-"),
    ),
    "bool": _list_forms(
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
    "text": _list_forms(
        "text", "upper({text})", "concat({text}, '-', {text})", "substring({text}, 1, 2)",
        "substring({text} FROM 1 FOR 2)", "trim({text})", "trim(BOTH 'x' FROM {text})",
        "cast({int} AS STRING)", "{.int}::string", "left({text}, 2)", "date_format({@ts}, 'mm')",
        "replace({text}, 'x', ')')", "overlay({text} PLACING 'q' FROM 1 FOR 1)",
        "{.text} || {.int}", "{.int} + {.int} || 'x'", "string({int})",
        "concat_ws(',', {text}, {text})", _binary("text", "||"),
    ),
}  # fmt: skip


def aggregate(draw: Draw) -> tuple[str, str]:
    """Draw an aggregate of expressions over rows; also return its type."""
    rng = draw.rng
    number = rng.choice(["int", "int", "float"])
    any_type = rng.choice(list(LITERALS))
    forms: Sequence[tuple[Callable[[], str], str]] = [
        (lambda: call(_change_case(rng, "sum"), draw.of(number)), number),
        (lambda: call(_change_case(rng, "avg"), draw.of(number)), "float"),
        (lambda: call(_change_case(rng, "min"), draw.of(any_type)), any_type),
        (lambda: call(_change_case(rng, "max"), draw.of(any_type)), any_type),
        (lambda: call(_change_case(rng, "count"), draw.of(any_type)), "int"),
        (lambda: call("count", "*"), "int"),
        (lambda: call("count", words("DISTINCT", draw.of(any_type))), "int"),
        (lambda: call("count_if", draw.of("bool")), "int"),
        (lambda: call("bool_and", draw.of("bool")), "bool"),
        (lambda: call("some", draw.of("bool")), "bool"),
    ]
    make, kind = rng.choice(forms)
    text = make()
    if rng.random() < 0.35:
        condition = words("WHERE", draw.of("bool"))
        text = words(text, call("FILTER", condition))
    elif rng.random() < 0.1:
        # Ties would be anybody's choice: positions are all different.
        name = rng.choice(["max_by", "min_by"])
        text, kind = call(name, draw.of(any_type), rng.choice(["id", "-id", "id * -2"])), any_type
    return text, kind


def _change_case(rng: random.Random, name: str) -> str:
    return rng.choice([name, name.upper(), name.title()])


class After(Draw):
    """Draws expressions over the groups of a query: keys and aggregates are its columns."""

    def __init__(self, rng: random.Random, rows: Draw, keys: dict[str, list[str]]) -> None:
        super().__init__(rng, keys, 2, {"ts": "max(ts)", "ar": "array(1, 2, 3)"})
        self.rows = rows

    def leaf(self, kind: str) -> str:
        """Draw a key, an aggregate, or sometimes a constant."""
        chance = self.rng.random()
        if chance < 0.15:
            return self.rng.choice(LITERALS[kind])
        if chance < 0.4 and self.columns.get(kind):
            return self.rng.choice(self.columns[kind])
        for _ in range(20):
            text, aggregate_kind = aggregate(self.rows)
            if aggregate_kind == kind:
                return text
        return self.rng.choice(LITERALS[kind])
