"""SQL functions of texts that have the same meaning in Polars and in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from muntin.hosts.local.sql_values import Arity, Unportable, Value, join_texts, make_text_value

# Regular expressions of dividers that mean the same in Java and Polars: one of some characters or
# a run of them.
_DIVIDERS = re.compile(r"(?:\[[^\]\[\\^&-]+\]|[^\\^$.|?*+()\[\]{}])\+|\[[^\]\[\\^&-]+\]")
_NONCHARACTER = "\uffff"


def read_text(value: Value, name: str) -> pl.Expr:
    """Return the text that a function takes.

    Raises:
        Unportable: When the value isn't a text.
    """
    if value.family not in ("string", "null"):
        raise Unportable(f"{name}() of {value.family}")
    return value.cast(pl.String())


def read_literal(value: Value, name: str, word: str) -> str:
    """Return a text that the SQL text contains, such as a pattern.

    Raises:
        Unportable: When the value isn't a literal.
    """
    if not isinstance(value.literal, str):
        raise Unportable(f"{name}() with a {word} that isn't a text")
    return value.literal


def _read_count(value: Value, name: str) -> int:
    if not isinstance(value.literal, int) or value.literal < 0:
        raise Unportable(f"{name}() with a length other than a number from 0")
    return value.literal


def _texts(name: str, compute: Callable[[pl.Expr], pl.Expr]) -> Arity:
    return 1, 1, lambda values: make_text_value(compute(read_text(values[0], name)))


def _length(values: Sequence[Value]) -> Value:
    (value,) = values
    count = read_text(value, "length").str.len_chars()
    return Value(count.cast(pl.Int32()), pl.Int32(), "integer", 31)


def _substring(values: Sequence[Value]) -> Value:
    value, *bounds = values
    numbers = [bound.literal for bound in bounds]
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or numbers[0] == 0:
        raise Unportable("substring() with bounds other than numbers from 1")
    start, length = (*numbers, None)[:2]
    assert isinstance(start, int)
    return make_text_value(read_text(value, "substring").str.slice(start - 1, length))  # type: ignore[arg-type]


def _take_first(values: Sequence[Value]) -> Value:
    text = read_text(values[0], "left")
    return make_text_value(text.str.head(_read_count(values[1], "left")))


def _take_last(values: Sequence[Value]) -> Value:
    text = read_text(values[0], "right")
    return make_text_value(text.str.tail(_read_count(values[1], "right")))


def _pad(name: str, at_end: bool) -> Arity:
    def function(values: Sequence[Value]) -> Value:
        text, length = read_text(values[0], name), _read_count(values[1], name)
        filling = read_literal(values[2], name, "filling") if len(values) > 2 else " "
        if len(filling) != 1:
            raise Unportable(f"{name}() with other than one character to fill with")
        # Longer texts are cut.
        short = text.str.head(length)
        padded = short.str.pad_end if at_end else short.str.pad_start
        return make_text_value(padded(length, filling))

    return 2, 3, function


def _find_part(name: str, compute: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Arity:
    """Return a function that looks for a part of a text."""

    def function(values: Sequence[Value]) -> Value:
        whole, part = (read_text(value, name) for value in values)
        return Value(compute(whole, part), pl.Boolean(), "boolean")

    return 2, 2, function


def _contains(whole: pl.Expr, part: pl.Expr) -> pl.Expr:
    return whole.str.contains(part, literal=True)


def _find_position(name: str, part: int) -> Arity:
    """Return a function from a text and a part, in this argument, to the part's first position."""

    def function(values: Sequence[Value]) -> Value:
        text, wanted = read_text(values[1 - part], name), read_literal(values[part], name, "part")
        if not wanted:
            raise Unportable(f"{name}() of an empty text")
        before = text.str.split(wanted).list.first().str.len_chars().cast(pl.Int32())
        position = pl.when(_contains(text, pl.lit(wanted))).then(before + 1).otherwise(0 * before)
        return Value(position, pl.Int32(), "integer", 31)

    return 2, 2, function


def _replace(values: Sequence[Value]) -> Value:
    text = read_text(values[0], "replace")
    wanted, *rest = (read_literal(value, "replace", "part") for value in values[1:])
    other = rest[0] if rest else ""
    if not wanted:
        return make_text_value(text)
    return make_text_value(text.str.replace_all(wanted, other, literal=True))


def _join_with(values: Sequence[Value]) -> Value:
    """Join texts by a separator, without those that are NULL."""
    separator = read_literal(values[0], "concat_ws", "separator")
    texts = [read_text(value, "concat_ws") for value in values[1:]]
    return make_text_value(pl.concat_str(texts, separator=separator, ignore_nulls=True))


def _array_join(values: Sequence[Value]) -> Value:
    texts, separator = values
    if texts.dtype != pl.List(pl.String()) or not isinstance(separator.literal, str):
        raise Unportable("array_join() of other than texts and a separator")
    return make_text_value(texts.expression.list.join(separator.literal, ignore_nulls=True))


def _split(values: Sequence[Value]) -> Value:
    text, pattern = values
    dividers = pattern.literal
    if not isinstance(dividers, str) or not dividers:
        raise Unportable("split() by other than a text")
    plain = read_text(text, "split")
    if _DIVIDERS.fullmatch(dividers):
        # No text has this noncharacter, by which the places of all dividers are marked.
        plain = plain.str.replace_all(dividers, _NONCHARACTER)
        dividers = _NONCHARACTER
    elif set(dividers) & set(r"\^$.|?*+()[]{}"):
        raise Unportable(f"split() by the regular expression {dividers!r}")
    return Value(plain.str.split(dividers), pl.List(pl.String()), "other")


def _split_part(values: Sequence[Value]) -> Value:
    """Return a part of a text between dividers, from 1, or from -1 backwards; else no text."""
    text, divider, number = values
    plain, by = read_text(text, "split_part"), read_literal(divider, "split_part", "divider")
    if not by or not isinstance(number.literal, int) or number.literal == 0:
        raise Unportable("split_part() without a divider and a number other than 0")
    index = number.literal - (number.literal > 0)
    part = plain.str.split(by).list.get(index, null_on_oob=True)
    return make_text_value(pl.when(plain.is_not_null()).then(part.fill_null("")))


_LOWER = _texts("lower", lambda one: one.str.to_lowercase())
_UPPER = _texts("upper", lambda one: one.str.to_uppercase())

TEXT_FUNCTIONS: Mapping[str, Arity] = {
    "array_join": (2, 2, _array_join),
    "char_length": (1, 1, _length),
    "concat": (1, 99, join_texts),
    "concat_ws": (2, 99, _join_with),
    "contains": _find_part("contains", _contains),
    "endswith": _find_part("endswith", lambda whole, part: whole.str.ends_with(part)),
    "instr": _find_position("instr", 1),
    "lcase": _LOWER,
    "left": (2, 2, _take_first),
    "length": (1, 1, _length),
    "locate": _find_position("locate", 0),
    "lower": _LOWER,
    "lpad": _pad("lpad", at_end=False),
    "ltrim": _texts("ltrim", lambda one: one.str.strip_chars_start(" ")),
    "position": _find_position("position", 0),
    "replace": (2, 3, _replace),
    "right": (2, 2, _take_last),
    "rpad": _pad("rpad", at_end=True),
    "rtrim": _texts("rtrim", lambda one: one.str.strip_chars_end(" ")),
    "split": (2, 2, _split),
    "split_part": (3, 3, _split_part),
    "startswith": _find_part("startswith", lambda whole, part: whole.str.starts_with(part)),
    "substr": (2, 3, _substring),
    "substring": (2, 3, _substring),
    "trim": _texts("trim", lambda one: one.str.strip_chars(" ")),
    "ucase": _UPPER,
    "upper": _UPPER,
}
"""Functions of texts by name, with the smallest and the largest number of their arguments."""
