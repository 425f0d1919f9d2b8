"""Formats and parses moments by Spark's patterns, such as ``yyyy-MM-dd HH:mm:ss``.

Each field means what Java's ``DateTimeFormatter`` means by it, with the English names that Spark
uses. A pattern with any other field is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from muntin.hosts.local.sql_values import Unportable

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HALVES = ("AM", "PM")
# The greatest number of letters of each field that is a number.
_WIDTHS = {"y": 6, "M": 2, "L": 2, "d": 2, "D": 3, "H": 2, "k": 2, "K": 2, "h": 2, "m": 2, "s": 2,
           "Q": 2, "q": 2}  # fmt: skip
_LONGEST_FRACTION = 9
# The fields of a moment that a text may have, and their form in it.
_PARSED = {"y": r"\d{1,4}", "M": r"0*(?:1[0-2]|[1-9])", "d": r"0*(?:[12]\d|3[01]|[1-9])",
           "H": r"0*(?:1\d|2[0-3]|\d)", "h": r"0*(?:1[0-2]|[1-9])", "m": r"0*(?:[1-5]\d|\d)",
           "s": r"0*(?:[1-5]\d|\d)"}  # fmt: skip
_OFFSETS = {
    "XXX": r"[+-]\d\d:\d\d|Z",
    "XX": r"[+-]\d{4}|Z",
    "X": r"[+-]\d\d(?:\d\d)?|Z",
    "Z": r"[+-]\d{4}",
    "ZZ": r"[+-]\d{4}",
    "ZZZ": r"[+-]\d{4}",
}
_PART = re.compile(r"''|'(?:[^']|'')*'|'.*|([A-Za-z])\1*|[^A-Za-z']+", re.S)
# The fields of a text whose pattern lacks them.
_REST = {"y": "1970", "M": "1", "d": "1", "H": "0", "m": "0", "s": "0"}


@dataclass(frozen=True)
class PatternPart:
    """One part of a pattern: a field, or a text that stands for itself.

    Attributes:
        letter: Letter of the field; empty for a text.
        text: The letters of the field, or the text.
    """

    letter: str
    text: str

    @property
    def width(self) -> int:
        """The number of letters."""
        return len(self.text)

    @property
    def is_number(self) -> bool:
        """True if the field consists of digits alone."""
        return self.letter == "S" or self.width <= _WIDTHS.get(self.letter, 0)


def split_pattern(pattern: str) -> list[PatternPart]:
    """Return the parts of a pattern.

    Raises:
        Unportable: When the pattern has an optional part, or a quote that isn't closed.

    Example:
        >>> [part.text for part in split_pattern("yyyy-MM'T'HH''")]
        ['yyyy', '-', 'MM', 'T', 'HH', "'"]
    """
    parts: list[PatternPart] = []
    for match in _PART.finditer(pattern):
        text = match.group()
        if match.group(1):
            parts.append(PatternPart(match.group(1), text))
        elif text == "''":
            parts.append(PatternPart("", "'"))
        elif text.startswith("'"):
            if len(text) < 2 or not text.endswith("'"):
                raise Unportable(f"the pattern {pattern!r}, whose quote isn't closed")
            parts.append(PatternPart("", text[1:-1].replace("''", "'")))
        elif (reserved := set("[]{}#") & set(text)) != set():
            raise Unportable(f"a pattern with {min(reserved)}")
        else:
            parts.append(PatternPart("", text))
    return parts


def format_by_pattern(moment: pl.Expr, pattern: str) -> pl.Expr:
    """Return moments, whose zone is the one to show, as texts.

    Raises:
        Unportable: When Spark and this host may differ about a field; the message names it.

    Example:
        >>> from datetime import datetime
        >>> at = pl.DataFrame({"at": [datetime(2026, 1, 2, 15, 4, 5)]})
        >>> at.select(format_by_pattern(pl.col("at"), "EEE d MMM, h:mm a")).to_series().to_list()
        ['Fri 2 Jan, 3:04 PM']
    """
    parts = [_format_part(moment, part) for part in split_pattern(pattern)]
    return pl.when(moment.is_not_null()).then(pl.concat_str([pl.lit(""), *parts]))


def _format_part(moment: pl.Expr, part: PatternPart) -> pl.Expr:
    letter, width, at = part.letter, part.width, moment.dt
    if not letter:
        return pl.lit(part.text)
    if letter == "y":
        return _format_year(at.year(), width)
    if letter in "ML" and width in (3, 4):
        return _name(at.month(), _MONTHS, 3 if width == 3 else None)
    if letter == "E" and width <= 4:
        return _name(at.weekday(), _DAYS, 3 if width < 4 else None)
    if letter == "a" and width == 1:
        return _name(at.hour() // 12 + 1, _HALVES, None)
    if letter == "S" and width <= _LONGEST_FRACTION:
        micros = at.microsecond().cast(pl.String()).str.zfill(6)
        return pl.concat_str([micros, pl.lit("000")]).str.head(width)
    numbers = {
        "M": at.month, "L": at.month, "d": at.day, "D": at.ordinal_day, "H": at.hour,
        "m": at.minute, "s": at.second, "Q": at.quarter, "q": at.quarter,
        "K": lambda: at.hour() % 12, "h": lambda: (at.hour() + 11) % 12 + 1,
        "k": lambda: (at.hour() + 23) % 24 + 1,
    }  # fmt: skip
    if letter not in numbers or not part.is_number:
        raise _refuse(part)
    return numbers[letter]().cast(pl.String()).str.zfill(width)


def _format_year(year: pl.Expr, width: int) -> pl.Expr:
    if width == 2:
        return (year % 100).cast(pl.String()).str.zfill(2)
    if width > _WIDTHS["y"]:
        raise _refuse(PatternPart("y", "y" * width))
    digits = year.cast(pl.Int64).abs().cast(pl.String()).str.zfill(width)
    exceeds = pl.lit(width >= 4) & (digits.str.len_chars() > width)
    sign = pl.when(year < 0).then(pl.lit("-")).when(exceeds).then(pl.lit("+")).otherwise(pl.lit(""))
    return pl.concat_str([sign, digits])


def _name(number: pl.Expr, names: tuple[str, ...], length: int | None) -> pl.Expr:
    """Return the names of numbers that begin at 1."""
    named: Mapping[int, str] = {at: name[:length] for at, name in enumerate(names, 1)}
    return number.cast(pl.Int8).replace_strict(named, return_dtype=pl.String())


def parse_formatted_times(text: pl.Expr, pattern: str) -> pl.Expr:
    """Return texts as moments in UTC; NULL for a text that isn't one by the pattern.

    Fields that a pattern lacks are those of 1970-01-01 00:00:00.

    Raises:
        Unportable: When Spark and this host may differ about a field; the message names it.

    Example:
        >>> texts = pl.DataFrame({"at": ["02/Jan/2026 03:04 PM", "31/Feb/2026 03:04 PM"]})
        >>> parsed = texts.select(parse_formatted_times(pl.col("at"), "dd/MMM/yyyy hh:mm a"))
        >>> [str(at) for at in parsed.to_series()]
        ['2026-01-02 15:04:00+00:00', 'None']
    """
    parts = split_pattern(pattern)
    letters = [part.letter for part in parts if part.letter]
    if len(set(letters)) < len(letters):
        raise Unportable(f"the pattern {pattern!r}, which has a field twice")
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        if part.is_number and part.width == 1 and following is not None and following.is_number:
            raise Unportable(f"{part.text!r} directly before {following.text!r} in a pattern")
    groups = [_match_part(part) for part in parts]
    fields = text.str.extract_groups(f"(?is)^{''.join(groups)}$")
    values = {part.letter: fields.struct.field(part.letter) for part in parts if part.letter}
    return _build_moment(values, {part.letter: part for part in parts})


def _match_part(part: PatternPart) -> str:
    """Return the regular expression of a part; a field is a group with the name of its letter."""
    letter, width = part.letter, part.width
    if not letter:
        return re.escape(part.text)
    if letter == "y" and width in (1, 2, 4):
        form = _PARSED["y"] if width == 1 else rf"\d{{{width}}}"
    elif letter == "M" and width in (3, 4):
        form = "|".join(name[: 3 if width == 3 else None] for name in _MONTHS)
    elif letter == "a" and width == 1:
        form = "|".join(_HALVES)
    elif letter == "S" and width <= _LONGEST_FRACTION:
        form = rf"\d{{1,{width}}}"
    elif letter in _PARSED and letter != "y" and width == 1:
        form = _PARSED[letter]
    elif letter in _PARSED and letter != "y" and width == 2:
        form = r"\d\d"
    elif part.text in _OFFSETS:
        form = _OFFSETS[part.text]
    else:
        raise _refuse(part)
    return f"(?P<{letter}>{form})"


def _build_moment(values: Mapping[str, pl.Expr], parts: Mapping[str, PatternPart]) -> pl.Expr:
    """Return moments from the texts of their fields."""
    if ("h" in values) != ("a" in values) or {"h", "H"} <= set(values):
        raise Unportable("a pattern with one of 'h' and 'a', or with 'h' beside 'H'")
    texts = {letter: values.get(letter, pl.lit(rest)) for letter, rest in _REST.items()}
    if "y" in values and parts["y"].width == 2:
        texts["y"] = pl.concat_str([pl.lit("20"), texts["y"]])
    if "M" in values and parts["M"].width > 2:
        numbers = {name[:3].lower(): str(at) for at, name in enumerate(_MONTHS, 1)}
        texts["M"] = texts["M"].str.to_lowercase().str.head(3).replace_strict(
            numbers, default=None, return_dtype=pl.String()
        )  # fmt: skip
    if "h" in values:
        hour = values["h"].cast(pl.Int32, strict=False)
        is_valid = hour.is_between(1, 12)
        half = (values["a"].str.to_uppercase() == "PM").cast(pl.Int32) * 12
        texts["H"] = pl.when(is_valid).then((hour % 12 + half).cast(pl.String()))
    padded = [texts["y"].str.zfill(4), *(_pad(texts[letter]) for letter in "MdHms")]
    # The parser of Polars takes the 60th second of a minute, which Java doesn't.
    padded[5] = pl.when(padded[5] != "60").then(padded[5])
    fraction = values.get("S", pl.lit("0")).str.pad_end(9, "0").str.head(6)
    offset = pl.lit("+0000")
    for letter in "XZ":
        if letter in values:
            plain = values[letter].str.to_uppercase().str.replace_all(":", "", literal=True)
            offset = plain.str.replace("Z", "+0000", literal=True).str.pad_end(5, "0")
    whole = pl.format("{}-{}-{}T{}:{}:{}.{}{}", *padded, fraction, offset)
    return whole.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", time_unit="us", strict=False)


def _pad(text: pl.Expr) -> pl.Expr:
    """Return a number's text with two digits."""
    return text.cast(pl.Int32, strict=False).cast(pl.String()).str.zfill(2)


def _refuse(part: PatternPart) -> Unportable:
    return Unportable(f"the field {part.text!r} of a time pattern")
