"""The rows of files and of Arrow tables, those among them that can't be read.

None of them ends a run: what isn't text, or has a quote that doesn't end, comes as ``Unread``.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.engine.named_rows import named_rows
from muntin.engine.utf8 import GARBLED, frame_of
from muntin.model.errors import OptionError

_AT_ONCE = 10_000
# As Spark reads lines of CSV: what doesn't fit the type of the first lines is null, and what is too
# much is left out.
_PERMISSIVE: dict[str, Any] = {
    "try_parse_dates": True,
    "ignore_errors": True,
    "truncate_ragged_lines": True,
    "encoding": "utf8-lossy",
}
# By as many lines Polars finds the types of columns.
_TYPED_BY = 100
# A field in quotes may go on in further lines, but hardly in more.
_MOST_LINES, _MOST_BYTES = 100, 1 << 20
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+)'
_RECORD = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+\r?\n?")


class Unread(NamedTuple):
    """A row that can't be read.

    Attributes:
        row: What can be shown of it.
        why: Why not.
    """

    row: Any
    why: str


def rows_of_file(path: Path, start: int) -> Iterator[Any]:
    """The rows of a file, from a number on.

    Raises:
        OptionError: When there is no such file, or its kind isn't known.
    """
    readers: dict[str, Callable[[Path, int], Iterator[Any]]] = {
        ".jsonl": _lines,
        ".ndjson": _lines,
        ".csv": _csv,
        ".parquet": _parquet,
    }
    read = readers.get(path.suffix.lower())
    if read is None:
        hint = "give a .jsonl, .ndjson, .csv or .parquet file, or read it yourself into a frame"
        raise OptionError("source", str(path), "isn't a kind of file that is known", hint)
    if not path.is_file():
        raise OptionError("source", str(path), "isn't a file", "give the path of one that is")
    return read(path, start)


def rows_of_arrow(data: pa.Table | pa.RecordBatch) -> Iterator[Any]:
    """The rows of an Arrow table; one with text that isn't UTF-8 is unread, its bytes escaped."""
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    yield from rows_of_frame(frame_of(table))


def rows_of_frame(frame: pl.DataFrame) -> Iterator[Any]:
    """The rows of a frame, in which those whose text isn't UTF-8 may be marked."""
    for row in named_rows(frame):
        bad = row.pop(GARBLED, None)
        yield Unread(row, f"{', '.join(bad)} isn't UTF-8") if bad else row


def _lines(path: Path, start: int) -> Iterator[Any]:
    with path.open("rb") as lines:
        for line in islice(lines, start, None):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                # It is rejected where values are checked, as it came.
                yield line.rstrip(b"\r\n")


def _parquet(path: Path, start: int) -> Iterator[Any]:
    scan = pl.scan_parquet(path)
    try:
        while len(part := scan.slice(start, _AT_ONCE).collect()):
            yield from named_rows(part)
            start += len(part)
        return
    except pl.exceptions.ComputeError as error:
        # Polars reads none of a file that has text of other bytes.
        if "UTF-8" not in str(error):
            raise
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        for batch in file.iter_batches(_AT_ONCE):
            if start < batch.num_rows:
                yield from rows_of_arrow(batch.slice(start))
            start = max(0, start - batch.num_rows)


def _csv(path: Path, start: int) -> Iterator[Any]:
    with path.open("rb") as lines:
        quoted = any(b'"' in part for part in iter(lambda: lines.read(1 << 20), b""))
    if quoted:
        yield from islice(_quoted_csv(path), start, None)
        return
    scan = pl.scan_csv(path, **_PERMISSIVE)
    while len(part := scan.slice(start, _AT_ONCE).collect()):
        yield from named_rows(part)
        start += len(part)


def _quoted_csv(path: Path) -> Iterator[Any]:
    """The rows of a file in which there are quotes.

    Polars takes a quote that doesn't end for one that ends anywhere. So it reads what is sound, and
    each time the first lines with it, which say what types the columns have.
    """
    with path.open("rb") as lines:
        if lines.read(len(BOM_UTF8)) != BOM_UTF8:
            lines.seek(0)
        records = _records(lines)
        header, sound = next(records)
        if not sound:
            hint = "close its quotes, or read it yourself into a frame"
            raise OptionError("source", str(path), "has names in a quote that doesn't end", hint)
        # Types are those of the first sound lines, in every part.
        first, held = [_ended(header)], []
        for record, sound in records:
            held.append((record, sound))
            first += [_ended(record)] if sound else []
            if len(first) > _TYPED_BY:
                break
        waiting: list[bytes] = []
        for record, sound in chain(held, records):
            if sound:
                waiting.append(record)
            if len(waiting) == _AT_ONCE or not sound:
                yield from _parsed(first, waiting)
                waiting = []
            if not sound:
                yield Unread(record.rstrip(b"\r\n"), "a quote doesn't end where its field does")
        yield from _parsed(first, waiting)


def _parsed(first: list[bytes], records: list[bytes]) -> Iterator[Any]:
    """Rows out of sound records; before them the names and what types are found by."""
    if records:
        frame = pl.read_csv(BytesIO(b"".join([*first, *records])), **_PERMISSIVE)
        yield from named_rows(frame.slice(len(first) - 1))


def _ended(record: bytes) -> bytes:
    return record.rstrip(b"\r\n") + b"\n"


def _records(lines: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Lines of CSV, several in one where a field in quotes goes on, and whether they are sound."""
    ahead: deque[bytes] = deque()
    while ahead or (ahead := deque(islice(lines, 1))):
        record, count = ahead[0], 1
        while record.count(b'"') % 2 and count < _MOST_LINES and len(record) < _MOST_BYTES:
            if count == len(ahead):
                ahead.extend(islice(lines, 1))
            if count == len(ahead):
                break
            record += ahead[count]
            count += 1
        sound = b'"' not in record or _RECORD.fullmatch(record) is not None
        # Where nothing is closed, what comes next may be sound.
        yield (record, True) if sound else (ahead[0], False)
        for _ in range(count if sound else 1):
            ahead.popleft()
