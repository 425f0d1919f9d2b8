"""Finds how a JSON object is written, so that others of the same producer are read alike."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from muntin.sources.message_patterns import Member, Pattern, find_kind, find_time_form

# A member whose name and value have no escapes and nothing beyond ASCII.
_MEMBER = re.compile(
    rb'(?P<before>[ \t\r]*(?P<mark>[{,])[ \t\r]*"(?P<name>[^"\\\x00-\x1f\x7f-\xff]*)"'
    rb"[ \t\r]*:[ \t\r]*)"
    rb'(?:"(?P<text>[^"\\\x00-\x1f\x7f-\xff]*)"|(?P<null>null)'
    rb"|(?P<bare>-?[0-9]+(?:\.[0-9]+)?|true|false))(?=[ \t\r,}])"
)
# Types whose values are written with quotes; a decimal is written in either way.
_QUOTED = (pl.String, pl.Datetime, pl.Date)
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
    at, nulls = 0, b""
    while match := _MEMBER.match(message, at):
        name = match["name"].decode()
        if (match["mark"] == b"{") == bool(names) or name in names:
            return None
        names.add(name)
        at = match.end()
        if match["null"]:
            nulls += match.group()
            continue
        member = _make_member(match, nulls + match["before"], name, columns.get(name))
        if member is None:
            return None
        members.append(member)
        nulls = b""
    close = _CLOSE.fullmatch(message, at)
    return Pattern(tuple(members), nulls + close.group()) if members and close else None


def _make_member(
    match: re.Match[bytes], before: bytes, name: str, dtype: pl.DataType | None
) -> Member | None:
    """Return a member; ``None`` if its value isn't one of its column's type."""
    text = match["text"]
    if text is not None:
        if time := find_time_form(text, dtype):
            form, zone = time
            return Member(before + b'"', name, "time", form, zone + b'"')
        is_text = dtype is None or isinstance(dtype, (pl.Decimal, *_QUOTED))
        return Member(before + b'"', name, "text", after=b'"') if is_text else None
    bare = match["bare"]
    if dtype is None:
        dtype = pl.Boolean() if bare in (b"true", b"false") else pl.Float64()
    kind = find_kind(bare, dtype)
    return None if kind is None else Member(before, name, kind)
