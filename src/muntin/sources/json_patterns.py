"""Finds how a JSON object is written, so that others of the same producer are read alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from muntin.sources.json_members import judge_values
from muntin.sources.message_patterns import (
    Format,
    Member,
    Pattern,
    find_kind,
    find_time_form,
)
from muntin.sources.text_values import REAL, WHOLE

# A member whose name and value have no escapes and nothing beyond ASCII. A value without quotes or
# brackets may be none of JSON.
_MEMBER = re.compile(
    rb'(?P<before>[ \t\r]*(?P<mark>[{,])[ \t\r]*"(?P<name>[^"\\\x00-\x1f\x7f-\xff]*)"'
    rb"[ \t\r]*:[ \t\r]*)"
    rb'(?:"(?P<text>[^"\\\x00-\x1f\x7f-\xff]*)"|(?P<open>[{\[])'
    rb'|(?P<bare>[^ "\\{}\[\],:\x00-\x1f\x7f-\xff]+)(?=[ \t\r,}]))'
)
_MARKS = re.compile(rb'"[^"]*"|(?P<open>[{\[])|(?P<close>[}\]])')
# Types whose values are written with quotes; a decimal is written in either way.
_QUOTED = (pl.String, pl.Datetime, pl.Date)
_BARE = (*WHOLE, *REAL, pl.Boolean)
# No column has this name.
_REPEATED = ""
_CLOSE = re.compile(rb"[ \t\r]*\}[ \t\r]*")


def find_pattern(message: bytes, columns: Mapping[str, pl.DataType]) -> Pattern | None:
    """Return how an object is written; ``None`` if it can't be read by a pattern.

    A null is a part of the pattern: objects with a value in its stead have another one.

    Example:
        >>> pattern = find_pattern(b'{"id":1,"x":"a","y":null}', {"x": pl.String()})
        >>> [(member.before, member.kind) for member in pattern.members], pattern.close
        ([(b'{"id":', 'real'), (b',"x":', 'text')], b',"y":null}')
    """
    members: list[Member] = []
    names: set[str] = set()
    at, nulls = 0, b""
    while match := _MEMBER.match(message, at):
        name = match["name"].decode()
        if (match["mark"] == b"{") == bool(names):
            return None
        # Of repeated members, the first one counts.
        name = _REPEATED if name in names else name
        names.add(name)
        at = _find_close(message, match.start("open")) if match["open"] else match.end()
        if match["bare"] == b"null":
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
    return Pattern(tuple(members), nulls + close.group())


def _find_close(message: bytes, at: int) -> int:
    """Return the end of a value in brackets; that of the message if it has none."""
    depth = 0
    for mark in _MARKS.finditer(message, at):
        depth += bool(mark["open"]) - bool(mark["close"])
        if not depth:
            return mark.end()
    return len(message)


def _make_member(match: re.Match[bytes], before: bytes, name: str, dtype: Any) -> Member | None:
    """Return a member; ``None`` if messages with such a value are left to another reader."""
    text, bare = match["text"], match["bare"]
    if isinstance(dtype, _BARE):
        return Member(before, name, find_kind(dtype) or "any")
    if text is not None:
        if time := find_time_form(text, dtype):
            return Member(before, name, "time", b'"', *time)
        is_read = dtype is None or isinstance(dtype, (pl.Decimal, *_QUOTED))
        return Member(before, name, "text", b'"') if is_read else None
    if isinstance(dtype, (pl.Datetime, pl.Date)):
        return Member(before, name, "any")
    if bare is None:
        return None
    if dtype is None:
        return Member(before, name, "boolean" if bare in (b"true", b"false") else "real")
    is_number = isinstance(dtype, pl.Decimal) and re.fullmatch(rb"-?[0-9]+(\.[0-9]+)?", bare)
    return Member(before, name, "decimal") if is_number else None


JSON = Format(
    find_pattern,
    judge_values,
    b",}",
    {"text": b'"', "real": b"-0123456789", "decimal": b'"-0123456789'},
    most=8,
    nests=True,
)
