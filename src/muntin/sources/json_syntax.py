"""Checks of JSON's syntax for many messages at once.

A call that reads many messages fails as a whole if one of them is broken. These checks find the
broken ones with regular expressions over the whole column. They accept what Polars' reader of lines
accepts, apart from half surrogate pairs, which Polars reads as a character of its own choice.
"""

from __future__ import annotations

import json
from math import inf

import numpy as np
import polars as pl

_HEX = "[0-9a-fA-F]"
_HIGH, _LOW = f"\\\\u[dD][89abAB]{_HEX}{{2}}", f"\\\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = f'\\\\["\\\\/bfnrt]|\\\\u(?:[0-9a-cA-CefEF]{_HEX}|[dD][0-7]){_HEX}{{2}}|{_HIGH}{_LOW}'
_STRING = f'"(?:[^"\\\\\\x00-\\x1f]|{_ESCAPE})*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_WORD = "true|false|null"
# Numbers of these forms fit into 128 bits, or are finite, whatever their digits are.
_SHORT_NUMBER = r"-?(?:0|[1-9][0-9]{0,37})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_LONG_NUMBER = r"[0-9]{39}|[eE][+-]?[0-9]{3}"
_SPACE = r"[ \t\r\n]*"
_SCALAR = f"{_STRING}|{_SHORT_NUMBER}|{_WORD}"


def _object(value: str) -> str:
    member = f"{_STRING}{_SPACE}:{_SPACE}{value}{_SPACE}"
    return rf"\{{{_SPACE}(?:{member}(?:,{_SPACE}{member})*)?\}}"


def _list(value: str) -> str:
    return rf"\[{_SPACE}(?:{value}{_SPACE}(?:,{_SPACE}{value}{_SPACE})*)?\]"


def _value(levels: int) -> str:
    """Return the pattern of a value of limited depth; each level makes it four times as long."""
    if not levels:
        return f"(?:{_SCALAR})"
    inner = _value(levels - 1)
    return f"(?:{_SCALAR}|{_object(inner)}|{_list(inner)})"


# Most messages are such objects.
_SHALLOW = rf"\A{_SPACE}{_object(_value(3))}{_SPACE}\z"
# Other objects have five brackets, their values four, or they have a number of another form.
_MAYBE_OTHER, _MAYBE_VALUE = (
    rf"{_LONG_NUMBER}|(?:[{{\[][^{{\[]*){{{levels}}}" for levels in (5, 4)
)
# Most objects with a number that can't be read have it beside values of this kind: a whole number
# of 40 digits, or one of at least 1e310.
_EXPONENT = "(?:[4-9][0-9]{2}|3[1-9][0-9]|[1-9][0-9]{3,8})"
_GREAT = rf"-?[1-9](?:[0-9]{{39,}}|[0-9]*(?:\.[0-9]+)?[eE]\+?0*{_EXPONENT}){_SPACE}"
_MEMBER = f"{_STRING}{_SPACE}:{_SPACE}"
_PAIRS = f"(?:{_MEMBER}{_value(1)}{_SPACE},{_SPACE})"
_OVERFLOWS = rf"\A{_SPACE}\{{{_SPACE}{_PAIRS}*{_MEMBER}{_GREAT}[,}}]"
# The same of a value alone.
_VALUE, _OVERFLOW = rf"\A{_SPACE}{_value(3)}{_SPACE}\z", rf"\A{_SPACE}{_GREAT}\z"
# A backslash belongs to a string, so half a surrogate pair breaks an object wherever it stands.
_NO_HALF = rf"[^\\]|\\[^u]|\\u(?:[^dD]|[dD][0-7])|{_HIGH}{_LOW}"
_NO_LOW = r"[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F]|\z"
_HALF_PAIR = rf"\A(?:{_NO_HALF})*(?:\\u[dD][c-fC-F]|{_HIGH}(?:{_NO_LOW}))"

# No message may have it, so it stands for a string in what follows; a zero stands for any value.
_TEXT = "\x01"
# The bracket that each closing one belongs to.
_OPENERS = {"]": "[", "}": "{"}
_TOKENS = rf"\A{_SPACE}\{{(?:[{_TEXT}:,{{}}\[\] \t\r\n]|{_NUMBER}|{_WORD})*\}}{_SPACE}\z"


def _container(levels: int) -> str:
    """Return the pattern of an object or a list of limited depth, of such tokens."""
    value = rf"(?:[\x010]|{_container(levels - 1)})" if levels > 1 else r"[\x010]"
    member = f"\x01:{value}"
    return rf"(?:\{{(?:{member}(?:,{member})*)?\}}|\[(?:{value}(?:,{value})*)?\])"


# So many levels are removed from all messages in one step, and deeper ones than those of a few
# steps are read token by token.
_LEVELS, _STEPS = 5, 8
_CONTAINER = _container(_LEVELS)
_DEEPEST = 1024
# Python's parser is recursive, so its depth is limited.
_SAFE_LEVELS = 200
_MOST_UNSIGNED, _MOST_NEGATIVE = str(2**128 - 1), str(2**127)
_MOST_DIGITS = len(_MOST_UNSIGNED)
# From this many digits on, Polars reads a number from its text.
_FAST_DIGITS = 19
_LONG_EXPONENT = r"[eE][+-]?0*([1-9][0-9]{9,})\z"


def find_half_pairs(texts: pl.Series) -> pl.Series:
    """Return which texts escape half a surrogate pair."""
    may_have = texts.str.contains("\\u", literal=True)
    rows = may_have.arg_true()
    return may_have.scatter(rows, texts.gather(rows).str.contains(_HALF_PAIR))


def find_objects(texts: pl.Series) -> pl.Series:
    """Return which texts are one JSON object; null isn't one."""
    sound, others = _find_shallow(texts, _SHALLOW, _MAYBE_OTHER, _OVERFLOWS)
    return sound.scatter(others, _find_nested(texts.gather(others))) if len(others) else sound


def find_values(texts: pl.Series) -> pl.Series:
    """Return which texts are a JSON value that an object may have; space may be around it."""
    sound, others = _find_shallow(texts, _VALUE, _MAYBE_VALUE, _OVERFLOW)
    if not len(others):
        return sound
    texts = texts.gather(others)
    # Producers write few such values by mistake.
    some = texts.unique()
    valid = some.filter(find_objects('{"":' + some + "}"))
    return sound.scatter(others, texts.is_in(valid.implode()))


def _find_shallow(
    texts: pl.Series, shallow: str, others: str, overflows: str
) -> tuple[pl.Series, pl.Series]:
    """Return which texts are sound at first sight, and the positions of those that may be."""
    sound = texts.str.contains(shallow).fill_null(False)
    rows = (~sound).arg_true()
    for pattern, may_be in ((others, True), (overflows, False)):
        if not len(rows):
            break
        # A null stays null here, and isn't among the rows that are true.
        rows = rows.filter(texts.gather(rows).str.contains(pattern) == may_be)
    return sound, rows


def _find_nested(texts: pl.Series) -> pl.Series:
    """Return which texts are an object, of any depth and with numbers of any length."""
    # What isn't a string remains as it is, and so does its quote.
    tokens = texts.str.replace_all(_STRING, _TEXT)
    sound = tokens.str.contains(_TOKENS) & ~texts.str.contains(_TEXT, literal=True)
    long = (sound & tokens.str.contains(_LONG_NUMBER)).arg_true()
    if len(long):
        sound = sound.scatter(long, _find_finite(tokens.gather(long)))
    rows = sound.arg_true()
    left = tokens.gather(rows).str.replace_all(f"{_NUMBER}|{_WORD}", "0")
    left = left.str.replace_all(r"[ \t\r\n]+", "")
    # Messages of one producer differ in their values alone.
    some = left.unique()
    return sound.scatter(rows, left.is_in(some.filter(_find_containers(some)).implode()))


def _find_containers(tokens: pl.Series) -> pl.Series:
    """Return which tokens are one container, in which zeros stand for values."""
    nested = np.zeros(len(tokens), bool)
    rows = pl.Series(np.arange(len(tokens)))
    for _ in range(_STEPS):
        whole = tokens.str.contains(rf"\A{_CONTAINER}\z")
        nested[rows.filter(whole)] = True
        shorter = tokens.str.replace_all(_CONTAINER, "0")
        goes_on = ~whole & (shorter.str.len_bytes() < tokens.str.len_bytes())
        rows, tokens = rows.filter(goes_on), shorter.filter(goes_on)
        if not len(rows):
            break
    for row, left in zip(rows, tokens, strict=True):
        nested[row] = _is_nested(left, _DEEPEST - _LEVELS * _STEPS)
    return pl.Series(nested)


def _is_nested(tokens: str, deepest: int) -> bool:
    """Return whether tokens are an object of limited depth."""
    if tokens.count("[") + tokens.count("{") < _SAFE_LEVELS:
        try:
            json.loads(tokens.replace(_TEXT, '""'))
        except ValueError:
            return False
        return True
    opened: list[str] = []
    # The token before; after a value of any kind it is a zero.
    before = ":"
    for token in tokens:
        if token in _OPENERS:
            if before not in "0[{" or not opened or opened.pop() != _OPENERS[token]:
                return False
            before = "0"
        elif token in ",:":
            # A value is followed by a comma, and a name by a colon.
            if before != ("0" if token == "," else _TEXT) or not opened:
                return False
            before = token
        elif before in "{," and opened and opened[-1] == "{":
            if token != _TEXT:
                return False
            before = token
        elif before not in ":[,":
            return False
        elif token in "[{":
            opened.append(token)
            if len(opened) > deepest:
                return False
            before = token
        else:
            before = "0"
    return before == "0" and not opened


def _find_finite(tokens: pl.Series) -> pl.Series:
    """Return in which texts all numbers are finite, and whole ones fit into 128 bits."""
    numbers = tokens.str.extract_all(_NUMBER).list.explode(keep_nulls=False, empty_as_null=False)
    owners = np.repeat(np.arange(len(tokens)), tokens.str.count_matches(_NUMBER).to_numpy())
    suspects = numbers.str.contains(_LONG_NUMBER)
    numbers, owners = numbers.filter(suspects), owners[suspects.to_numpy()]
    digits = numbers.str.strip_chars_start("-")
    limits = pl.select(
        pl.when(numbers.str.starts_with("-")).then(pl.lit(_MOST_NEGATIVE))
        .otherwise(pl.lit(_MOST_UNSIGNED))
    ).to_series()  # fmt: skip
    size = digits.str.len_bytes()
    fits = (size < _MOST_DIGITS) | ((size == _MOST_DIGITS) & (digits <= limits))
    real = numbers.str.contains("[.eE]")
    finite = numbers.cast(pl.Float64, strict=False).is_finite().fill_null(False)
    sound = (fits & ~real) | (finite & real)
    wide = numbers.str.contains(_LONG_EXPONENT).arg_true()
    if len(wide):
        sound = sound.scatter(wide, [_is_finite(number) for number in numbers.gather(wide)])
    every = np.ones(len(tokens), bool)
    every[owners[~sound.to_numpy()]] = False
    return pl.Series(every)


def _is_finite(number: str) -> bool:
    """Return whether Polars reads a number whose exponent has ten digits or more.

    Polars refuses an exponent with digits beyond 2³², and otherwise keeps 32 bits of it.
    """
    mantissa, exponent = number.lower().lstrip("-").split("e")
    power, digits = int(exponent), mantissa.replace(".", "").lstrip("0")
    if abs(power) // 10 > 2**32:
        return False
    if float(number.lstrip("-")) < inf:
        return True
    fraction = len(mantissa.partition(".")[2])
    wrapped = (power - fraction + 2**31) % 2**32 - 2**31
    return len(digits) < _FAST_DIGITS and wrapped <= 308 and float(f"{digits}e{wrapped}") < inf
