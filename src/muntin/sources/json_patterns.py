"""Finds how a JSON object is written, so that others of the same producer are read alike."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from muntin.sources.message_patterns import LONG, Member, Pattern, find_kind, find_time_form
from muntin.sources.text_values import REAL, WHOLE

# A member whose name and value have no escapes and nothing beyond ASCII.
_MEMBER = re.compile(
    rb'(?P<before>[ \t\r]*(?P<mark>[{,])[ \t\r]*"(?P<name>[^"\\\x00-\x1f\x7f-\xff]*)"'
    rb"[ \t\r]*:[ \t\r]*)"
    rb'(?:(?:"(?P<text>[^"\\\x00-\x1f\x7f-\xff]*)"|(?P<null>null)'
    rb"|(?P<bare>-?[0-9]+(?:\.[0-9]+)?|true|false)"
    # What other languages write, which isn't JSON.
    rb"|(?P<foreign>NaN|nan|-?Infinity|undefined|None|True|False))(?=[ \t\r,}])"
    # An object without further ones.
    rb"|(?P<object>\{[^{}\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]*\}))"
)
# Types whose values are written with quotes; a decimal is written in either way.
_QUOTED = (pl.String, pl.Datetime, pl.Date)
_BARE = (*WHOLE, *REAL, pl.Boolean)
_LONG = re.compile(rb"-?[1-9][0-9]{%d,%d}" % (LONG[0] - 1, LONG[1] - 1))
# No column has this name.
_REPEATED = ""
_CLOSE = re.compile(rb"[ \t\r]*\}[ \t\r]*")


def find_pattern(message: bytes, columns: Mapping[str, pl.DataType]) -> Pattern | None:
    """Return how an object is written; ``None`` if it can't be read by a pattern.

    A null is a part of the pattern: objects with a value in its stead have another one.

    Example:
        >>> pattern = find_pattern(b'{"id":1,"x":"a","y":null}', {"x": pl.String()})
        >>> [(member.before, member.kind) for member in pattern.members], pattern.close
        ([(b'{"id":', 'real'), (b',"x":"', 'text')], b',"y":null}')
    """
    members: list[Member] = []
    names: set[str] = set()
    at, nulls, is_broken = 0, b"", False
    while match := _MEMBER.match(message, at):
        name = match["name"].decode()
        if (match["mark"] == b"{") == bool(names):
            return None
        # Of repeated members, the first one counts.
        name = _REPEATED if name in names else name
        names.add(name)
        at = match.end()
        if match["object"]:
            inner = _find_inner(match["object"], columns.get(name))
            if inner is None:
                return None
            members += [Member(nulls + match["before"], name, "object", is_wrong=True)]
            members += inner.members
            is_broken |= inner.is_broken
            nulls = inner.close
            continue
        if match["null"] or match["foreign"]:
            is_broken |= bool(match["foreign"])
            nulls += match.group()
            continue
        member = _make_member(match, nulls + match["before"], name, columns.get(name))
        if member is None:
            return None
        members.append(member)
        nulls = b""
    close = _CLOSE.fullmatch(message, at)
    if close is None or not members:
        return None
    return Pattern(tuple(members), nulls + close.group(), is_broken)


def _find_inner(message: bytes, dtype: pl.DataType | None) -> Pattern | None:
    """Return how an object is written where its column has another type."""
    if not isinstance(dtype, (*_BARE, pl.Decimal, pl.Datetime, pl.Date)):
        return None
    inner = find_pattern(message, {})
    if inner is None:
        return None
    members = tuple(member._replace(name=_REPEATED) for member in inner.members)
    return inner._replace(members=members)


def _make_member(
    match: re.Match[bytes], before: bytes, name: str, dtype: pl.DataType | None
) -> Member | None:
    """Return a member; ``None`` if its value may not be one of its column's type."""
    text = match["text"]
    if text is not None:
        if time := find_time_form(text, dtype):
            form, zone = time
            return Member(before + b'"', name, "time", form, zone + b'"')
        is_wrong = isinstance(dtype, _BARE)
        if is_wrong or dtype is None or isinstance(dtype, (pl.Decimal, *_QUOTED)):
            return Member(before + b'"', name, "text", after=b'"', is_wrong=is_wrong)
        return None
    bare = match["bare"]
    if isinstance(dtype, WHOLE) and _LONG.fullmatch(bare):
        sign = b"-" if bare.startswith(b"-") else b""
        return Member(before + sign, name, "long", is_wrong=True)
    if isinstance(dtype, WHOLE) and b"." in bare:
        return Member(before, name, "fraction", is_wrong=True)
    is_truth = bare in (b"true", b"false")
    if dtype is None:
        dtype = pl.Boolean() if is_truth else pl.Float64()
    if is_truth and isinstance(dtype, WHOLE):
        return Member(before, name, "boolean", is_wrong=True)
    if isinstance(dtype, pl.Boolean) and not is_truth:
        return Member(before, name, "real", is_wrong=True)
    # As text, a number is no time.
    kind = find_kind(bare, pl.Decimal() if isinstance(dtype, (pl.Datetime, pl.Date)) else dtype)
    return None if kind is None else Member(before, name, kind)
