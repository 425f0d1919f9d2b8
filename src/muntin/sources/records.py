"""Splits text files into records, at the ends of lines that aren't quoted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 8 << 20
# An unclosed quote in a record longer than this affects only its own line.
_LONGEST = 64 << 20
# A field of CSV, as in ``CsvPayloads``, and its end.
_FIELD = re.compile(rb'(?:"(?:[^"\\]|\\.|"")*"[^,\n]*|[^",\n][^,\n]*|)([,\n]|\Z)', re.DOTALL)


def read_text_records(path: Path, size: int, *, quotes: bool) -> Iterator[list[bytes]]:
    """Yield the records of a file of ``size`` bytes, some megabytes at a time, without empty lines.

    With ``quotes``, a quoted field may contain a line feed. Raises ``OSError`` for a shorter file.
    """
    rest = b""
    with path.open("rb") as file:
        remaining = size
        while remaining or rest:
            chunk = file.read(min(remaining, _CHUNK))
            if remaining and not chunk:
                raise OSError(f"it ends {remaining} bytes early")
            remaining -= len(chunk)
            records, rest = split_records(rest + chunk, quotes=quotes, last=not remaining)
            yield [record for record in records if record.strip()]


def split_records(data: bytes, *, quotes: bool, last: bool) -> tuple[list[bytes], bytes]:
    r"""Return the complete records at the beginning of some bytes, and the rest.

    Args:
        data: Bytes to cut.
        quotes: Whether a quoted field may contain a line feed.
        last: Whether these are the last bytes, so that there is no rest.

    Example:
        >>> split_records(b'1,"a\nb"\n2,c', quotes=True, last=False)
        ([b'1,"a\nb"'], b'2,c')
    """
    lines = data.split(b"\n")
    # A line that ends within a field has an odd number of quotes, or a quote that is escaped by a
    # backslash.
    if quotes and b'"' in data and (b'\\"' in data or any(n.count(b'"') & 1 for n in lines)):
        return _split_quoted(data, last=last)
    rest = lines.pop()
    if last and rest:
        lines, rest = [*lines, rest], b""
    return lines, rest


def _split_quoted(data: bytes, *, last: bool) -> tuple[list[bytes], bytes]:
    records, at = [], 0
    while at < len(data):
        end = _record_end(data, at, last=last)
        if end is None:
            if not last and len(data) - at <= _LONGEST:
                break
            end = data.find(b"\n", at)
            if end < 0:
                if not last:
                    break
                end = len(data)
        records.append(data[at:end])
        at = end + 1
    return records, data[at:]


def _record_end(data: bytes, at: int, *, last: bool) -> int | None:
    """Return the end of the record at a position; ``None`` if a quote isn't closed."""
    while True:
        field = _FIELD.match(data, at)
        if field is None or (not field[1] and not last):
            return None
        if field[1] != b",":
            return field.start(1)
        at = field.end()
