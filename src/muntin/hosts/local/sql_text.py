"""Parses an expression in SQL text into a Polars expression with Spark's meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal

import polars as pl

from muntin.hosts.local import sql_values as values
from muntin.hosts.local.sql_casts import cast, try_cast
from muntin.hosts.local.sql_functions import call_function, find_function
from muntin.hosts.local.sql_time_functions import extract_part
from muntin.hosts.local.sql_values import NULL_VALUE, Unportable, Value
from muntin.model.errors import OptionError

FindColumn = Callable[[list[str]], Value]
"""A function that returns the column or the field of structs with a path of names."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[dDlL]?)(?![\w.])
      | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=>|<=|>=|<>|!=|==|\|\||::|[=<>+\-*/%(),.])
    )""",
    re.VERBOSE,
)
_SIGNS = {"==": "=", "!=": "<>"}
_UNITS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_CALLED_WITHOUT_PARENTHESES = (
    "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "CURRENT_USER",
)  # fmt: skip
# The most characters of a number; Python refuses to convert thousands of digits.
_MOST_DIGITS = 400
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
# Words that can't be the name of a column without quotes.
_WORDS = frozenset({
    "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "TRUE", "FALSE", "CASE", "WHEN",
    "THEN", "ELSE", "END", "CAST", "DISTINCT", "INTERVAL", "RLIKE", "ILIKE", "ESCAPE", "OVER",
    "SELECT", "EXISTS",
})  # fmt: skip


def read_sql(text: str, find_column: FindColumn) -> Value:
    """Parse an expression.

    Args:
        text: The expression.
        find_column: Finds columns, and raises the error for a missing one.

    Raises:
        Unportable: When Polars and Spark don't both have an operator or function with the same
            meaning.
    """
    reader = _Parser(text, find_column)
    value = reader.parse_condition()
    if reader.token:
        raise Unportable(repr(reader.token))
    return value


def read_values(text: str) -> list[list[Value]]:
    """Parse the rows after `VALUES`.

    Raises:
        Unportable: When a value isn't computed from literals alone, or not alike on both hosts.
    """

    def refuse_column(path: list[str]) -> Value:
        raise Unportable(f"{'.'.join(path)} among VALUES")

    reader = _Parser(text, refuse_column)
    rows = reader.parse_rows()
    if reader.token:
        raise Unportable(repr(reader.token))
    return rows


class _Parser:
    """Parses tokens from left to right, with a method for each level of precedence."""

    def __init__(self, text: str, find_column: FindColumn) -> None:
        self._text = text.strip()
        self._lookup = find_column
        self._at = 0
        self.kind = self.token = ""
        self._advance()

    def parse_rows(self) -> list[list[Value]]:
        """Parse rows with commas between them: values in parentheses, or one value each."""
        rows = [self._parse_row()]
        while self._accept(","):
            rows.append(self._parse_row())
        return rows

    def _parse_row(self) -> list[Value]:
        return self._parse_list() if self._accept("(") else [self.parse_condition()]

    def parse_condition(self) -> Value:
        """Parse conditions joined by OR, which binds loosest."""
        value = self._parse_conjunction()
        while self._accept("OR"):
            left, right = value, self._parse_conjunction()
            value = values.make_condition_value(
                values.require_condition("OR", left) | values.require_condition("OR", right)
            )
        return value

    def _parse_conjunction(self) -> Value:
        value = self._parse_negation()
        while self._accept("AND"):
            left, right = value, self._parse_negation()
            value = values.make_condition_value(
                values.require_condition("AND", left) & values.require_condition("AND", right)
            )
        return value

    def _parse_negation(self) -> Value:
        if self._accept("NOT"):
            return values.negate_condition(self._parse_negation())
        return self._parse_predicate()

    def _parse_predicate(self) -> Value:
        value = self._parse_sum()
        while True:
            sign = _SIGNS.get(self.token, self.token)
            if self.kind == "sign" and sign in _COMPARISONS:
                self._advance()
                value = values.compare(sign, value, self._parse_sum())
            elif self._accept("IS"):
                value = self._parse_is(value)
            elif self._get_keyword in ("NOT", "IN", "BETWEEN", "LIKE"):
                is_negated = self._accept("NOT")
                test = self._parse_membership(value)
                value = values.negate_condition(test) if is_negated else test
            else:
                return value

    def _parse_membership(self, value: Value) -> Value:
        if self._accept("IN"):
            self._expect("(")
            equal = [values.compare("=", value, one).expression for one in self._parse_list()]
            whole = equal[0]
            for one in equal[1:]:
                whole = whole | one
            return values.make_condition_value(whole)
        if self._accept("BETWEEN"):
            least = self._parse_sum()
            self._expect("AND")
            above = values.compare(">=", value, least).expression
            return values.make_condition_value(
                above & values.compare("<=", value, self._parse_sum()).expression
            )
        self._expect("LIKE")
        return values.match(value, self._parse_sum())

    def _parse_is(self, value: Value) -> Value:
        is_negated = self._accept("NOT")
        if self._accept("NULL"):
            test = value.expression.is_null()
        elif self._accept("DISTINCT"):
            self._expect("FROM")
            test = ~values.compare("<=>", value, self._parse_sum()).expression
        elif self._get_keyword in ("TRUE", "FALSE"):
            wanted = self._get_keyword == "TRUE"
            self._advance()
            test = values.require_condition("IS", value).eq_missing(pl.lit(wanted))
        else:
            raise Unportable(f"IS {self.token}")
        return values.make_condition_value(~test if is_negated else test)

    def _parse_sum(self) -> Value:
        value = self._parse_product()
        while self.kind == "sign" and self.token in ("+", "-", "||"):
            sign = self.token
            self._advance()
            if sign != "||" and self._accept("INTERVAL"):
                value = values.shift(sign, value, self._parse_interval())
                continue
            other = self._parse_product()
            joins = sign == "||"
            value = values.join_texts([value, other]) if joins else values.add(sign, value, other)
        return value

    def _parse_interval(self) -> int:
        """Parse the number and the unit of an interval, in microseconds."""
        content = self.token.strip("'\"")
        self._advance()
        micros = _UNITS.get(self._get_keyword.removesuffix("S"))
        if micros is None or not re.fullmatch(r"-?\d+(\.\d{1,6})?", content):
            unit = self._get_keyword or "no unit"
            raise Unportable(f"INTERVAL {content!r} {unit}")
        self._advance()
        return int(Decimal(content) * micros)

    def _parse_product(self) -> Value:
        value = self._parse_sign()
        while self.kind == "sign" and self.token in ("*", "/", "%"):
            sign = self.token
            self._advance()
            other = self._parse_sign()
            if sign == "*":
                value = values.add(sign, value, other)
            else:
                value = (values.divide if sign == "/" else values.compute_remainder)(value, other)
        return value

    def _parse_sign(self) -> Value:
        if self._accept("-"):
            return values.negate(self._parse_sign())
        if self._accept("+"):
            return self._parse_sign()
        return self._parse_primary()

    def _parse_primary(self) -> Value:
        value = self._parse_operand()
        while self._accept("::"):
            name = self.token.lower()
            self._advance()
            value = cast(value, name)
        return value

    def _parse_operand(self) -> Value:
        kind, token = self.kind, self.token
        if kind == "sign":
            self._expect("(")
            value = self.parse_condition()
            self._expect(")")
            return self._parse_fields(value)
        if not kind:
            raise Unportable("no end")
        if kind == "word" and self._get_keyword in _WORDS:
            return self._parse_word()
        self._advance()
        if kind == "number":
            return _parse_number(token)
        if kind == "text":
            return _parse_text(token)
        if kind == "word" and self.kind == "text" and token.upper() in ("DATE", "TIMESTAMP"):
            moment = str(_parse_text(self.token).literal)
            self._advance()
            return _parse_time(token.upper(), moment)
        if kind == "word" and token.upper() == "EXTRACT" and self._accept("("):
            return self._parse_extract()
        if kind == "word" and token.upper() == "POSITION" and self._accept("("):
            return self._parse_position()
        if kind == "word" and token.upper() == "TRY_CAST" and self._accept("("):
            return try_cast(*self._parse_cast())
        if kind == "word" and self._accept("("):
            # A name that doesn't exist is reported before what its arguments can't have.
            find_function(token)
            return self._parse_fields(call_function(token, self._parse_list()))
        return self._parse_column(token)

    def _parse_fields(self, value: Value) -> Value:
        """Parse the fields after a struct that isn't a column."""
        while self._accept("."):
            name = _unquote_name(self.token)
            field = values.find_field(value, name)
            if field is None:
                raise Unportable(f"a field {name} of {value.family}")
            self._advance()
            value = field
        return value

    def _parse_word(self) -> Value:
        word = self._get_keyword
        self._advance()
        if word == "NULL":
            return NULL_VALUE
        if word in ("TRUE", "FALSE"):
            return values.make_condition_value(pl.lit(word == "TRUE"))
        if word == "CASE":
            return self._parse_case()
        if word == "CAST":
            self._expect("(")
            return cast(*self._parse_cast())
        raise Unportable(word)

    def _parse_case(self) -> Value:
        subject = None if self._get_keyword == "WHEN" else self.parse_condition()
        branches = []
        while self._accept("WHEN"):
            holds = self.parse_condition()
            if subject is not None:
                holds = values.compare("=", subject, holds)
            self._expect("THEN")
            branches.append((values.require_condition("WHEN", holds), self.parse_condition()))
        rest = self.parse_condition() if self._accept("ELSE") else NULL_VALUE
        self._expect("END")
        return values.choose(branches, rest)

    def _parse_cast(self) -> tuple[Value, str]:
        """Parse a value and the name of a type."""
        value = self.parse_condition()
        self._expect("AS")
        name = self.token.lower()
        self._advance()
        self._expect(")")
        return value, name

    def _parse_extract(self) -> Value:
        field = self.token
        self._advance()
        self._expect("FROM")
        value = self.parse_condition()
        self._expect(")")
        return extract_part(field, value)

    def _parse_position(self) -> Value:
        part = self._parse_sum()
        if not self._accept("IN"):
            self._expect(",")
        whole = self._parse_sum()
        self._expect(")")
        return call_function("position", [part, whole])

    def _parse_column(self, token: str) -> Value:
        path = [_unquote_name(token)]
        while self._accept("."):
            path.append(_unquote_name(self.token))
            self._advance()
        if self.token == "(":
            raise Unportable(f"{'.'.join(path)}()")
        try:
            return self._lookup(path)
        except OptionError:
            # Columns of such names take precedence.
            if token.upper() in _CALLED_WITHOUT_PARENTHESES:
                raise Unportable(token) from None
            raise

    def _parse_list(self) -> list[Value]:
        """Parse values up to a closing parenthesis."""
        items: list[Value] = []
        while not self._accept(")"):
            items.append(self.parse_condition())
            if self.token != ")":
                self._expect(",")
        return items

    @property
    def _get_keyword(self) -> str:
        return self.token.upper() if self.kind == "word" else ""

    def _accept(self, wanted: str) -> bool:
        if (self._get_keyword or self.token) != wanted or self.kind not in ("word", "sign"):
            return False
        self._advance()
        return True

    def _expect(self, wanted: str) -> None:
        if not self._accept(wanted):
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


def _unquote_name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else token


def _parse_number(token: str) -> Value:
    if len(token) > _MOST_DIGITS:
        raise Unportable(f"a number of {len(token):,} characters")
    if token[-1] in "lL":
        number = values.make_integer_literal(int(token[:-1]))
        return Value(number.cast(pl.Int64()), pl.Int64(), "integer", number.bits, number.literal)
    return (
        values.make_integer_literal(int(token))
        if token.isdecimal()
        else values.make_decimal_literal(token)
    )


def _parse_text(token: str) -> Value:
    if "\\" in token:
        raise Unportable("a text with a backslash")
    mark = token[0]
    content = token[1:-1].replace(mark * 2, mark)
    return Value(pl.lit(content), pl.String(), "string", literal=content)


def _parse_time(word: str, content: str) -> Value:
    """Parse a date or a moment, which is in UTC if it has no zone, as all texts are here."""
    try:
        if word == "DATE":
            return Value(pl.lit(date.fromisoformat(content)), pl.Date(), "date")
    except ValueError:
        raise Unportable(f"{word} {content!r}") from None
    moment = values.parse_moment(content)
    if moment is None:
        raise Unportable(f"{word} {content!r}")
    dtype = pl.Datetime("us", "UTC")
    return Value(pl.lit(moment).cast(dtype), dtype, "timestamp")
