"""Reads the rows of files and Arrow tables, including rows that are malformed.

A malformed row doesn't end a run: text that isn't UTF-8, or a quote that isn't closed, is returned
as ``UnreadableRow``.
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

from muntin.engine.named_rows import iter_named_rows
from muntin.engine.utf8 import GARBLED, frame_from_arrow
from muntin.model.errors import OptionError

_BATCH_ROWS = 10_000
# As in Spark: values that don't fit the type of the first lines are null, and surplus fields are
# ignored.
_PERMISSIVE: dict[str, Any] = {
    "try_parse_dates": True,
    "ignore_errors": True,
    "truncate_ragged_lines": True,
    "encoding": "utf8-lossy",
}
# Polars infers the types of columns from this many lines.
_INFERENCE_ROWS = 100
# The most lines, and bytes, that one quoted record may span.
_MAX_RECORD_LINES, _MAX_RECORD_BYTES = 100, 1 << 20
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+)'
_RECORD = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+\r?\n?")


class UnreadableRow(NamedTuple):
    """A row that can't be read."""

    row: Any
    why: str


def read_file_rows(path: Path, start: int) -> Iterator[Any]:
    """Read the rows of a file, starting at the row ``start``.

    Raises:
        OptionError: When the file doesn't exist, or its format isn't supported.
    """
    readers: dict[str, Callable[[Path, int], Iterator[Any]]] = {
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
        ".csv": _read_csv,
        ".parquet": _read_parquet,
    }
    read = readers.get(path.suffix.lower())
    if read is None:
        hint = "give a .jsonl, .ndjson, .csv or .parquet file, or read it yourself into a frame"
        raise OptionError("source", str(path), "isn't a kind of file that is known", hint)
    if not path.is_file():
        raise OptionError("source", str(path), "isn't a file", "give the path of one that is")
    return read(path, start)


def read_arrow_rows(data: pa.Table | pa.RecordBatch) -> Iterator[Any]:
    """Read the rows of an Arrow table; one with text that isn't UTF-8 is unreadable."""
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    yield from read_frame_rows(frame_from_arrow(table))


def read_frame_rows(frame: pl.DataFrame) -> Iterator[Any]:
    """Read the rows of a frame, in which rows with text that isn't UTF-8 may be marked."""
    for row in iter_named_rows(frame):
        bad = row.pop(GARBLED, None)
        yield UnreadableRow(row, f"{', '.join(bad)} isn't UTF-8") if bad else row


def _read_json_lines(path: Path, start: int) -> Iterator[Any]:
    with path.open("rb") as lines:
        for line in islice(lines, start, None):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                # The check of the value's type rejects it, unchanged.
                yield line.rstrip(b"\r\n")


def _read_parquet(path: Path, start: int) -> Iterator[Any]:
    scan = pl.scan_parquet(path)
    try:
        while len(part := scan.slice(start, _BATCH_ROWS).collect()):
            yield from iter_named_rows(part)
            start += len(part)
        return
    except pl.exceptions.ComputeError as error:
        # Polars reads nothing of a file with text that isn't UTF-8.
        if "UTF-8" not in str(error):
            raise
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            if start < batch.num_rows:
                yield from read_arrow_rows(batch.slice(start))
            start = max(0, start - batch.num_rows)


def _read_csv(path: Path, start: int) -> Iterator[Any]:
    with path.open("rb") as lines:
        quoted = any(b'"' in part for part in iter(lambda: lines.read(1 << 20), b""))
    if quoted:
        yield from islice(_read_quoted_csv(path), start, None)
        return
    scan = pl.scan_csv(path, **_PERMISSIVE)
    while len(part := scan.slice(start, _BATCH_ROWS).collect()):
        yield from iter_named_rows(part)
        start += len(part)


def _read_quoted_csv(path: Path) -> Iterator[Any]:
    """Read the rows of a CSV file that has quotes.

    Polars lets an unclosed quote run to any later one. So it only gets the valid records, each time
    behind the first ones, which determine the types of the columns.
    """
    with path.open("rb") as lines:
        if lines.read(len(BOM_UTF8)) != BOM_UTF8:
            lines.seek(0)
        records = _split_records(lines)
        header, is_valid = next(records)
        if not is_valid:
            hint = "close its quotes, or read it yourself into a frame"
            raise OptionError("source", str(path), "has names in a quote that doesn't end", hint)
        # The first valid records determine the types in every part.
        prefix, read_ahead = [_end_line(header)], []
        for record, is_valid in records:
            read_ahead.append((record, is_valid))
            prefix += [_end_line(record)] if is_valid else []
            if len(prefix) > _INFERENCE_ROWS:
                break
        waiting: list[bytes] = []
        for record, is_valid in chain(read_ahead, records):
            if is_valid:
                waiting.append(record)
            if len(waiting) == _BATCH_ROWS or not is_valid:
                yield from _parse_records(prefix, waiting)
                waiting = []
            if not is_valid:
                yield UnreadableRow(
                    record.rstrip(b"\r\n"), "a quote doesn't end where its field does"
                )
        yield from _parse_records(prefix, waiting)


def _parse_records(prefix: list[bytes], records: list[bytes]) -> Iterator[Any]:
    """Parse valid records, behind a header and the records that determine the types."""
    if records:
        frame = pl.read_csv(BytesIO(b"".join([*prefix, *records])), **_PERMISSIVE)
        yield from iter_named_rows(frame.slice(len(prefix) - 1))


def _end_line(record: bytes) -> bytes:
    return record.rstrip(b"\r\n") + b"\n"


def _split_records(lines: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield records of CSV, which span several lines within quotes, and whether they are valid."""
    lines_ahead: deque[bytes] = deque()
    while lines_ahead or (lines_ahead := deque(islice(lines, 1))):
        record, count = lines_ahead[0], 1
        while (
            record.count(b'"') % 2 and count < _MAX_RECORD_LINES and len(record) < _MAX_RECORD_BYTES
        ):
            if count == len(lines_ahead):
                lines_ahead.extend(islice(lines, 1))
            if count == len(lines_ahead):
                break
            record += lines_ahead[count]
            count += 1
        is_valid = b'"' not in record or _RECORD.fullmatch(record) is not None
        # If the quote never closes, the next line may still be valid.
        yield (record, True) if is_valid else (lines_ahead[0], False)
        for _ in range(count if is_valid else 1):
            lines_ahead.popleft()
