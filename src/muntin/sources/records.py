"""Records of text files: bytes cut at the ends of lines, but not within quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 8 << 20
# A quote that isn't closed within so many bytes spoils its own line only.
_LONGEST = 64 << 20
# A field of CSV, as of ``CsvPayloads``, and what ends it.
_FIELD = re.compile(rb'(?:"(?:[^"\\]|\\.|"")*"[^,\n]*|[^",\n][^,\n]*|)([,\n]|\Z)', re.DOTALL)


def read_records(path: Path, size: int, *, quotes: bool) -> Iterator[list[bytes]]:
    """The records of a file, some megabytes at a time; empty lines are none.

    Args:
        path: The file.
        size: How many of its bytes are read.
        quotes: Whether a quoted field may hold the end of a line.

    Raises:
        OSError: When the file can't be read, or is shorter.
    """
    rest = b""
    with path.open("rb") as file:
        left = size
        while left or rest:
            chunk = file.read(min(left, _CHUNK))
            if left and not chunk:
                raise OSError(f"it ends {left} bytes early")
            left -= len(chunk)
            records, rest = cut_records(rest + chunk, quotes=quotes, last=not left)
            yield [record for record in records if record.strip()]


def cut_records(data: bytes, *, quotes: bool, last: bool) -> tuple[list[bytes], bytes]:
    r"""The whole records at the beginning of some bytes, and the rest.

    Args:
        data: The bytes.
        quotes: Whether a quoted field may hold the end of a line.
        last: Whether nothing follows, so that there is no rest.

    Example:
        >>> cut_records(b'1,"a\nb"\n2,c', quotes=True, last=False)
        ([b'1,"a\nb"'], b'2,c')
    """
    lines = data.split(b"\n")
    # A field that goes on behind its line has an odd number of quotes there, or one that a
    # backslash stands before.
    if quotes and b'"' in data and (b'\\"' in data or any(n.count(b'"') & 1 for n in lines)):
        return _cut_quoted(data, last=last)
    rest = lines.pop()
    if last and rest:
        lines, rest = [*lines, rest], b""
    return lines, rest


def _cut_quoted(data: bytes, *, last: bool) -> tuple[list[bytes], bytes]:
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
    """Where the record that begins at a byte ends; ``None`` where a quote isn't closed."""
    while True:
        field = _FIELD.match(data, at)
        if field is None or (not field[1] and not last):
            return None
        if field[1] != b",":
            return field.start(1)
        at = field.end()
