"""Parses an expression in SQL text into a Polars expression with Spark's meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal

import polars as pl

from muntin.hosts.local import sql_values as values
from muntin.hosts.local.sql_functions import call_function
from muntin.hosts.local.sql_values import NULL_VALUE, Unportable, Value

FindColumn = Callable[[list[str]], Value]
"""A function that returns the column or the field of structs with a path of names."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[dDlL]?)(?![\w.])
      | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=>|<=|>=|<>|!=|==|\|\||[=<>+\-*/%(),.])
    )""",
    re.VERBOSE,
)
_SIGNS = {"==": "=", "!=": "<>"}
_UNITS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
# Words that can't be the name of a column without quotes.
_WORDS = frozenset({
    "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "TRUE", "FALSE", "CASE", "WHEN",
    "THEN", "ELSE", "END", "CAST", "DISTINCT", "INTERVAL", "RLIKE", "ILIKE", "ESCAPE", "OVER",
    "SELECT", "EXISTS",
})  # fmt: skip
_TYPES = {
    "tinyint": pl.Int8(), "smallint": pl.Int16(), "int": pl.Int32(), "integer": pl.Int32(),
    "bigint": pl.Int64(), "long": pl.Int64(), "float": pl.Float32(), "double": pl.Float64(),
    "string": pl.String(), "boolean": pl.Boolean(), "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"), "date": pl.Date(),
}  # fmt: skip


def read_sql(text: str, lookup: FindColumn) -> Value:
    """Parse an expression.

    Args:
        text: The expression.
        lookup: Finds columns, and raises the error for a missing one.

    Raises:
        Unportable: When Polars and Spark don't both have an operator or function with the same
            meaning.
    """
    reader = _Reader(text, lookup)
    value = reader.any()
    if reader.token:
        raise Unportable(repr(reader.token))
    return value


def read_values(text: str) -> list[list[Value]]:
    """Parse the rows after `VALUES`.

    Raises:
        Unportable: When a value isn't computed from literals alone, or not alike on both hosts.
    """

    def lookup(path: list[str]) -> Value:
        raise Unportable(f"{'.'.join(path)} among VALUES")

    reader = _Reader(text, lookup)
    rows = reader.rows()
    if reader.token:
        raise Unportable(repr(reader.token))
    return rows


class _Reader:
    """Reads tokens from left to right; its methods are in the order of precedence, lowest first."""

    def __init__(self, text: str, lookup: FindColumn) -> None:
        self._text = text.strip()
        self._lookup = lookup
        self._at = 0
        self.kind = self.token = ""
        self._advance()

    def rows(self) -> list[list[Value]]:
        """Parse rows with commas between them: values in parentheses, or one value each."""
        rows = [self._row()]
        while self._takes(","):
            rows.append(self._row())
        return rows

    def _row(self) -> list[Value]:
        return self._list() if self._takes("(") else [self.any()]

    def any(self) -> Value:
        """Parse conditions joined by OR, which binds loosest."""
        value = self._all()
        while self._takes("OR"):
            left, right = value, self._all()
            value = values.condition_value(
                values.require_condition("OR", left) | values.require_condition("OR", right)
            )
        return value

    def _all(self) -> Value:
        value = self._not()
        while self._takes("AND"):
            left, right = value, self._not()
            value = values.condition_value(
                values.require_condition("AND", left) & values.require_condition("AND", right)
            )
        return value

    def _not(self) -> Value:
        if self._takes("NOT"):
            return values.negate_condition(self._not())
        return self._predicate()

    def _predicate(self) -> Value:
        value = self._sum()
        while True:
            sign = _SIGNS.get(self.token, self.token)
            if self.kind == "sign" and sign in _COMPARISONS:
                self._advance()
                value = values.compare(sign, value, self._sum())
            elif self._takes("IS"):
                value = self._is(value)
            elif self._upper in ("NOT", "IN", "BETWEEN", "LIKE"):
                is_negated = self._takes("NOT")
                test = self._membership(value)
                value = values.negate_condition(test) if is_negated else test
            else:
                return value

    def _membership(self, value: Value) -> Value:
        if self._takes("IN"):
            self._expect("(")
            equal = [values.compare("=", value, one).expression for one in self._list()]
            whole = equal[0]
            for one in equal[1:]:
                whole = whole | one
            return values.condition_value(whole)
        if self._takes("BETWEEN"):
            least = self._sum()
            self._expect("AND")
            above = values.compare(">=", value, least).expression
            return values.condition_value(
                above & values.compare("<=", value, self._sum()).expression
            )
        self._expect("LIKE")
        return values.match(value, self._sum())

    def _is(self, value: Value) -> Value:
        is_negated = self._takes("NOT")
        if self._takes("NULL"):
            test = value.expression.is_null()
        elif self._takes("DISTINCT"):
            self._expect("FROM")
            test = ~values.compare("<=>", value, self._sum()).expression
        elif self._upper in ("TRUE", "FALSE"):
            wanted = self._upper == "TRUE"
            self._advance()
            test = values.require_condition("IS", value).eq_missing(pl.lit(wanted))
        else:
            raise Unportable(f"IS {self.token}")
        return values.condition_value(~test if is_negated else test)

    def _sum(self) -> Value:
        value = self._product()
        while self.kind == "sign" and self.token in ("+", "-", "||"):
            sign = self.token
            self._advance()
            if sign != "||" and self._takes("INTERVAL"):
                value = values.shift(sign, value, self._interval())
                continue
            other = self._product()
            joins = sign == "||"
            value = values.join_texts([value, other]) if joins else values.add(sign, value, other)
        return value

    def _interval(self) -> int:
        """Parse the number and the unit of an interval, in microseconds."""
        content = self.token.strip("'\"")
        self._advance()
        micros = _UNITS.get(self._upper.removesuffix("S"))
        if micros is None or not re.fullmatch(r"-?\d+(\.\d{1,6})?", content):
            raise Unportable(f"INTERVAL in {self._upper or self.token}")
        self._advance()
        return int(Decimal(content) * micros)

    def _product(self) -> Value:
        value = self._sign()
        while self.kind == "sign" and self.token in ("*", "/", "%"):
            sign = self.token
            self._advance()
            other = self._sign()
            if sign == "*":
                value = values.add(sign, value, other)
            else:
                value = (values.divide if sign == "/" else values.remainder)(value, other)
        return value

    def _sign(self) -> Value:
        if self._takes("-"):
            return values.negate(self._sign())
        if self._takes("+"):
            return self._sign()
        return self._primary()

    def _primary(self) -> Value:
        kind, token = self.kind, self.token
        if kind == "sign":
            self._expect("(")
            value = self.any()
            self._expect(")")
            return value
        if not kind:
            raise Unportable("no end")
        if kind == "word" and self._upper in _WORDS:
            return self._word()
        self._advance()
        if kind == "number":
            return _number(token)
        if kind == "text":
            return _text(token)
        if kind == "word" and self.kind == "text" and token.upper() in ("DATE", "TIMESTAMP"):
            moment = str(_text(self.token).literal)
            self._advance()
            return _moment(token.upper(), moment)
        if kind == "word" and self._takes("("):
            return call_function(token, self._list())
        return self._column(token)

    def _word(self) -> Value:
        word = self._upper
        self._advance()
        if word == "NULL":
            return NULL_VALUE
        if word in ("TRUE", "FALSE"):
            return values.condition_value(pl.lit(word == "TRUE"))
        if word == "CASE":
            return self._case()
        if word == "CAST":
            return self._cast()
        raise Unportable(word)

    def _case(self) -> Value:
        subject = None if self._upper == "WHEN" else self.any()
        branches = []
        while self._takes("WHEN"):
            holds = self.any()
            if subject is not None:
                holds = values.compare("=", subject, holds)
            self._expect("THEN")
            branches.append((values.require_condition("WHEN", holds), self.any()))
        rest = self.any() if self._takes("ELSE") else NULL_VALUE
        self._expect("END")
        return values.choose(branches, rest)

    def _cast(self) -> Value:
        self._expect("(")
        value = self.any()
        self._expect("AS")
        name = self.token.lower()
        self._advance()
        self._expect(")")
        return _cast(value, name)

    def _column(self, token: str) -> Value:
        path = [_name(token)]
        while self._takes("."):
            path.append(_name(self.token))
            self._advance()
        if self.token == "(":
            raise Unportable(f"{'.'.join(path)}()")
        return self._lookup(path)

    def _list(self) -> list[Value]:
        """Parse values up to a closing parenthesis."""
        items: list[Value] = []
        while not self._takes(")"):
            items.append(self.any())
            if self.token != ")":
                self._expect(",")
        return items

    @property
    def _upper(self) -> str:
        return self.token.upper() if self.kind == "word" else ""

    def _takes(self, wanted: str) -> bool:
        if (self._upper or self.token) != wanted or self.kind not in ("word", "sign"):
            return False
        self._advance()
        return True

    def _expect(self, wanted: str) -> None:
        if not self._takes(wanted):
            raise Unportable(repr(self.token) if self.token else f"no {wanted}")

    def _advance(self) -> None:
        if self._at >= len(self._text):
            self.kind = self.token = ""
            return
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise Unportable(repr(self._text[self._at :].split()[0]))
        self.kind = str(match.lastgroup)
        self.token = match[self.kind]
        self._at = match.end()


def _name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else token


def _number(token: str) -> Value:
    if token[-1] in "lL":
        number = values.integer_literal(int(token[:-1]))
        return Value(number.cast(pl.Int64()), pl.Int64(), "integer", number.bits, number.literal)
    return (
        values.integer_literal(int(token)) if token.isdecimal() else values.decimal_literal(token)
    )


def _text(token: str) -> Value:
    if "\\" in token:
        raise Unportable("a text with a backslash")
    mark = token[0]
    content = token[1:-1].replace(mark * 2, mark)
    return Value(pl.lit(content), pl.String(), "string", literal=content)


def _moment(word: str, content: str) -> Value:
    """Parse a date, or a moment with a zone; without one, Spark would use the session's zone."""
    try:
        if word == "DATE":
            return Value(pl.lit(date.fromisoformat(content)), pl.Date(), "date")
        moment = datetime.fromisoformat(content)
    except ValueError:
        raise Unportable(f"{word} {content!r}") from None
    if moment.tzinfo is None:
        raise Unportable(f"TIMESTAMP {content!r} without a zone")
    dtype = pl.Datetime("us", "UTC")
    return Value(pl.lit(moment).cast(dtype), dtype, "timestamp")


def _cast(value: Value, name: str) -> Value:
    """Cast a value, if the cast is lossless."""
    wanted = _TYPES.get(name)
    if wanted is not None and value.dtype == wanted:
        return value
    if wanted is not None and value.family == "null":
        return values.column_value(value.cast(wanted), wanted)
    if wanted is not None and value.family == "integer":
        narrow = values.column_value(value.expression, value.dtype)
        wider = values.column_value(value.finish().cast(wanted), wanted)
        if wider.bits >= narrow.bits or wanted in (pl.Float64(), pl.String()):
            return wider
    raise Unportable(f"CAST({value.family} AS {name.upper()})")
