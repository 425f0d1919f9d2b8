"""Columns in the syntax of SQL: ``id long, at timestamp, tags array<string>``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from muntin.model.errors import OptionError

_TEXTS = ("string", "text", "varchar", "char")
_PLAIN: dict[str, pl.DataType] = {
    **dict.fromkeys(("tinyint", "byte"), pl.Int8()),
    **dict.fromkeys(("smallint", "short"), pl.Int16()),
    **dict.fromkeys(("int", "integer"), pl.Int32()),
    **dict.fromkeys(("bigint", "long"), pl.Int64()),
    **dict.fromkeys(("float", "real"), pl.Float32()),
    "double": pl.Float64(),
    **dict.fromkeys(_TEXTS, pl.String()),
    "binary": pl.Binary(),
    "boolean": pl.Boolean(),
    "date": pl.Date(),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), pl.Datetime("us", "UTC")),
    "timestamp_ntz": pl.Datetime("us"),
}
_MOST_DIGITS = 38
_DECIMAL = ("decimal", "dec", "numeric")
_SIGNS = "<>(),:"
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>(),:])")
_TYPES = (
    "give boolean, int, long, double, decimal(10, 2), string, binary, date, timestamp, "
    "timestamp_ntz, array<…>, map<…> or struct<…>"
)
_HINT = "write names and types, as in 'id long, at timestamp'"


def parse_columns(text: str) -> dict[str, pl.DataType]:
    """Return the names and types of columns, written with Spark's names of types."""
    parser = _Parser(text)
    columns = parser.fields(end="")
    if not columns:
        raise OptionError("columns", text, "names no columns", _HINT)
    return columns


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fields(self, end: str) -> dict[str, pl.DataType]:
        """Read names with their types, up to a closing token."""
        columns: dict[str, pl.DataType] = {}
        while self._peek() != end:
            name = self._next()
            if name in _SIGNS:
                raise self._unreadable()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if name.lower() in map(str.lower, columns):
                raise OptionError("columns", name, "appears twice among the columns", _HINT)
            if self._peek() == ":":
                self._next()
            columns[name] = self.type()
            if self._peek().lower() == "not":
                self._expect("not")
                self._expect("null")
            if self._peek() != end:
                self._expect(",")
        return columns

    def type(self) -> pl.DataType:
        """Read a type."""
        word = self._next().lower()
        if word == "array":
            self._expect("<")
            kind: pl.DataType = pl.List(self.type())
            self._expect(">")
        elif word == "map":
            self._expect("<")
            key = self.type()
            self._expect(",")
            kind = pl.Map(key, self.type())
            self._expect(">")
        elif word == "struct":
            self._expect("<")
            kind = pl.Struct(self.fields(end=">"))
            self._expect(">")
        elif word in _DECIMAL:
            precision, scale = (*self._numbers(), 10, 0)[:2] if self._peek() == "(" else (10, 0)
            if not scale <= precision <= _MOST_DIGITS or not precision:
                size = f"{word}({precision}, {scale})"
                hint = f"give up to {_MOST_DIGITS} digits, as in decimal(38, 6)"
                raise OptionError("columns", size, "isn't a type", hint)
            kind = pl.Decimal(precision, scale)
        elif word in _PLAIN:
            kind = _PLAIN[word]
            if self._peek() == "(":
                self._read_precision(word)
        else:
            raise OptionError("columns", word, "isn't a type", _TYPES)
        return kind

    def end(self) -> None:
        """Refuse what follows."""
        if self._peek():
            raise self._unreadable()

    def _read_precision(self, word: str) -> None:
        """Read the digits of a time's seconds, which it has anyway; refuse any other length."""
        start = self.at
        self._numbers()
        if not word.startswith("timestamp"):
            plain = "string" if word in _TEXTS else word
            size = f"{word}{self.text[start : self.at]}"
            hint = f"write {plain}, and filter by length where it matters"
            raise OptionError("columns", size, "has a length, which isn't checked", hint)

    def _numbers(self) -> list[int]:
        """Read whole numbers in parentheses."""
        self._expect("(")
        numbers = []
        while self._peek() != ")":
            word = self._next()
            if not word.isdecimal():
                raise self._unreadable()
            numbers.append(int(word))
            if self._peek() == ",":
                self._next()
        self._expect(")")
        return numbers if len(numbers) != 1 else [*numbers, 0]

    def _peek(self) -> str:
        token = _TOKEN.match(self.text, self.at)
        if token is None:
            if self.text[self.at :].strip():
                raise self._unreadable()
            return ""
        return token[1]

    def _next(self) -> str:
        token = _TOKEN.match(self.text, self.at)
        if token is None:
            raise self._unreadable()
        self.at = token.end()
        return token[1]

    def _expect(self, sign: str) -> None:
        if self._next().lower() != sign:
            raise self._unreadable()

    def _unreadable(self) -> OptionError:
        rest = self.text[self.at :].strip()[:20] or "the end"
        return OptionError("columns", self.text, f"can't be read near {rest!r}", _HINT)


def plain_columns(columns: str | Mapping[str, pl.DataType | str]) -> dict[str, pl.DataType]:
    """Return the columns that a user passes as text, or as Polars' or textual types by name."""
    if isinstance(columns, str):
        return parse_columns(columns)
    if not isinstance(columns, Mapping):
        hint = 'give text, columns="id long, at timestamp", or a dictionary'
        raise OptionError("columns", columns, "has no types", hint)
    if not columns:
        hint = 'write names and types, as in "id long, at timestamp"'
        raise OptionError("columns", columns, "names no columns", hint)
    plain = {}
    for name, kind in columns.items():
        if isinstance(kind, str):
            plain[name] = parse_type(kind)
            continue
        try:
            # A class such as pl.Datetime has defaults for its parameters.
            is_class = isinstance(kind, type) and issubclass(kind, pl.DataType)
            default: Any = kind
            plain.update(pl.Schema({name: default() if is_class else kind}))
        except TypeError as error:
            raise OptionError("columns", kind, f"isn't a type of {name!r}", _TYPES) from error
    return plain


def parse_type(text: str) -> pl.DataType:
    """Return the type that a text such as ``array<string>`` names, or refuse it."""
    parser = _Parser(text)
    kind = parser.type()
    parser.end()
    return kind
