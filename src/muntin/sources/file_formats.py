"""Formats of files: how to infer their columns and to read their rows."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import GARBLED, frame_from_arrow
from muntin.model.errors import OptionError, SourceError
from muntin.model.printable import escape_line
from muntin.sources.csv_payloads import CsvPayloads, parse_fields
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.payloads import Payloads, describe_faults
from muntin.sources.source import MALFORMED_COLUMN, MALFORMED_COLUMNS, MALFORMED_DETAIL_COLUMN
from muntin.sources.text_values import WHOLE, convert_texts, is_readable

_ROWS_AT_ONCE = 200_000
# The most fields of text that are decoded at once, since a short header may name many columns.
_CELLS_AT_ONCE = 10_000_000
# A text file is complete if nothing was written to it for this long.
_SETTLES_NANOS = 1_000_000_000
# The first and the last bytes of a Parquet file.
_MAGIC = b"PAR1"
# The number of records from which types are inferred.
_SAMPLE = 1_000
_LEARNED: tuple[tuple[pl.DataType, str], ...] = (
    (pl.Int64(), r"^[+-]?\d{1,18}$"),
    (pl.Float64(), r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"),
    (pl.Boolean(), r"(?i)^(true|false)$"),
    (pl.Date(), r"^\d{4}-\d\d-\d\d$"),
    (pl.Datetime("us", "UTC"), r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"),
)


class FileFormat(Protocol):
    """A format of files."""

    @property
    def form(self) -> str:
        """The name of the format."""

    @property
    def columns(self) -> dict[str, pl.DataType] | None:
        """The columns that the user declared; ``None`` if they come from a file."""

    def infer(self, path: Path) -> dict[str, pl.DataType]:
        """Infer the columns of a file."""

    def is_whole(self, path: str, size: int, written: int) -> bool:
        """Return whether a file of a size, last written at ``written`` (ns), is complete."""

    def read(self, path: Path, size: int, schema: pl.Schema) -> Iterator[pl.DataFrame]:
        """Yield the rows of a file, in the columns of a schema, in frames of a bounded size."""


def format_of(
    form: str, columns: dict[str, pl.DataType] | None, header: bool | None, zone: SessionZone
) -> FileFormat:
    """Return the format of a name, or refuse options or types of columns that it hasn't."""
    if header is not None and form != "csv":
        raise OptionError("header", header, f"doesn't apply to format={form!r}", "leave it out")
    if header is False and columns is None:
        hint = "give columns='…', or header=True"
        raise OptionError("header", header, "leaves the columns without names", hint)
    if form == "parquet":
        if zone != SessionZone():
            hint = "leave it out: their times are instants, or local on purpose"
            raise OptionError("zone", zone.name, "doesn't apply to format='parquet'", hint)
        return ParquetFiles(columns)
    for name, kind in (columns or {}).items():
        if not is_readable(kind):
            hint = "give a plain type, or read it as a string"
            raise OptionError(
                "columns", name, f"has type {kind}, which can't be read from text", hint
            )
    kinds = [pl.Datetime("us", "UTC")] if columns is None else columns.values()
    has_times = any(isinstance(kind, pl.Datetime) and kind.time_zone for kind in kinds)
    if zone != SessionZone() and not has_times:
        hint = "leave it out, or declare the times as timestamp"
        raise OptionError("zone", zone.name, "has no effect on columns without timestamps", hint)
    if form == "csv":
        return CsvFiles(columns, columns is None if header is None else header, zone)
    return JsonLines(columns, zone)


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files. A column that a file lacks is NULL, and narrower numbers are widened."""

    columns: dict[str, pl.DataType] | None
    form = "parquet"

    def infer(self, path: Path) -> dict[str, pl.DataType]:
        with _naming(path):
            frame = pl.from_arrow(pq.read_schema(path).empty_table())
        assert isinstance(frame, pl.DataFrame)
        return {name: _plain(kind) for name, kind in frame.schema.items()}

    def is_whole(self, path: str, size: int, written: int) -> bool:
        try:
            with open(path, "rb") as file:
                if file.read(4) != _MAGIC:
                    # The file isn't Parquet, unless its first bytes aren't written yet.
                    return size >= len(_MAGIC)
                file.seek(max(size - len(_MAGIC), len(_MAGIC)))
                return file.read(4) == _MAGIC
        except OSError:
            return False

    def read(self, path: Path, size: int, schema: pl.Schema) -> Iterator[pl.DataFrame]:
        with _naming(path), pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            names = [name for name in file.schema_arrow.names if name in schema]
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
                rows = frame_from_arrow(pa.Table.from_batches([batch]))
                marks = [pl.col(GARBLED)] if GARBLED in rows.columns else []
                shaped = [_shape(name, kind, rows.schema, path) for name, kind in schema.items()]
                yield rows.select(*shaped, *marks)


def _plain(kind: pl.DataType) -> pl.DataType:
    """Return a type as sources have it: times in microseconds, text for categories."""
    if isinstance(kind, pl.Datetime):
        return pl.Datetime("us", None if kind.time_zone is None else "UTC")
    return pl.String() if isinstance(kind, pl.Categorical | pl.Enum) else kind


def _shape(name: str, wanted: pl.DataType, held: pl.Schema, path: Path) -> pl.Expr:
    """Return a file's column in the type that is read."""
    if name not in held:
        return pl.lit(None, dtype=wanted).alias(name)
    kind = _plain(held[name])
    fits = kind == wanted or (kind, wanted) == (pl.Float32, pl.Float64)
    fits |= isinstance(kind, pl.Datetime) and isinstance(wanted, pl.Datetime)
    if isinstance(kind, WHOLE) and isinstance(wanted, WHOLE):
        fits = WHOLE.index(type(kind)) <= WHOLE.index(type(wanted))
    if not fits:
        raise SourceError(f"{path} has a column {name} of type {held[name]} instead of {wanted}")
    return pl.col(name).cast(wanted)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in an error of PyArrow."""
    try:
        yield
    except pa.ArrowException as error:
        line = str(error).partition("\n")[0]
        raise SourceError(f"{path} can't be read: {line}") from error


@dataclass(frozen=True)
class CsvFiles:
    """CSV files."""

    columns: dict[str, pl.DataType] | None
    header: bool
    zone: SessionZone
    form = "csv"

    def infer(self, path: Path) -> dict[str, pl.DataType]:
        records = _sample(path, quotes=True)
        names = _header(records)
        texts: dict[str, pl.DataType] = dict.fromkeys(names, pl.String())
        frame = CsvPayloads(texts, self.zone).decode(records[1:]).rows
        return {name: _learn(frame[name], self.zone) for name in names}

    def is_whole(self, path: str, size: int, written: int) -> bool:
        return _is_settled(written)

    def read(self, path: Path, size: int, schema: pl.Schema) -> Iterator[pl.DataFrame]:
        columns = {name: kind for name, kind in schema.items() if name not in MALFORMED_COLUMNS}
        decoder = None if self.header else CsvPayloads(columns, self.zone)
        for records in read_text_records(path, size, quotes=True):
            if decoder is None and records:
                names, records = _header(records), records[1:]
                held = {name: columns[name] for name in names if name in columns}
                if not held:
                    raise _refuse_header(path, names, [*columns])
                decoder = CsvPayloads(held, self.zone, tuple(dict.fromkeys(names)))
            if decoder is not None:
                yield from _decode(decoder, records, schema)


@dataclass(frozen=True)
class JsonLines:
    """Files of JSON objects, one per line."""

    columns: dict[str, pl.DataType] | None
    zone: SessionZone
    form = "jsonl"

    def infer(self, path: Path) -> dict[str, pl.DataType]:
        records = _sample(path, quotes=False)
        try:
            frame = pl.read_ndjson(io.BytesIO(b"\n".join(records)), infer_schema_length=None)
        except pl.exceptions.PolarsError as error:
            raise SourceError(f"{path} has no lines of JSON to infer columns from") from error
        return {name: _learn(frame[name], self.zone) for name in frame.columns}

    def is_whole(self, path: str, size: int, written: int) -> bool:
        return _is_settled(written)

    def read(self, path: Path, size: int, schema: pl.Schema) -> Iterator[pl.DataFrame]:
        columns = {name: kind for name, kind in schema.items() if name not in MALFORMED_COLUMNS}
        decoder = JsonPayloads(columns, self.zone)
        for records in read_text_records(path, size, quotes=False):
            yield from _decode(decoder, records, schema)


def _is_settled(written: int) -> bool:
    return time.time_ns() - written >= _SETTLES_NANOS


def _sample(path: Path, *, quotes: bool) -> list[bytes]:
    """Return the first records of a file."""
    for records in read_text_records(path, path.stat().st_size, quotes=quotes):
        if records:
            return records[:_SAMPLE]
    raise SourceError(f"{path} is empty, so its columns can't be inferred")


def _header(records: Sequence[bytes]) -> list[str]:
    """Return the names in the first record of a file."""
    record = records[0].decode("utf-8-sig", "replace").strip()
    return [(name or "").strip() for name in parse_fields(record) or record.split(",")]


def _refuse_header(path: Path, names: Sequence[str], columns: Sequence[str]) -> SourceError:
    """Return the error of a file whose header has none of the columns."""
    header, wanted = escape_line(",".join(names))[:100], ", ".join(columns[:5])
    return SourceError(
        f"{path} has none of the columns {wanted} in its header '{header}'. Correct the names, and "
        "separate them by commas"
    )


def _learn(column: pl.Series, zone: SessionZone) -> pl.DataType:
    """Infer the type of a sample's values; text if no plain type fits all of them."""
    if column.dtype != pl.String:
        return column.dtype if is_readable(column.dtype) else pl.String()
    texts = column.drop_nulls()
    if not len(texts):
        return pl.String()
    for kind, form in _LEARNED:
        if not texts.str.contains(form).all():
            continue
        if not convert_texts(texts.to_frame("x"), {"x": kind}, zone).bad.any():
            return kind
    return pl.String()


def _decode(decoder: Payloads, records: list[bytes], schema: pl.Schema) -> Iterator[pl.DataFrame]:
    """Decode records into the columns of a schema; unreadable ones are malformed."""
    step = max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // max(1, len(decoder.columns))))
    for first in range(0, len(records), step):
        some = records[first : first + step]
        rows, bad, faults = decoder.decode(some)
        present = {*rows.columns, *MALFORMED_COLUMNS}
        lacking = [name for name in schema if name not in present]
        rows = rows.with_columns(pl.lit(None, dtype=schema[name]).alias(name) for name in lacking)
        raw = pl.Series(MALFORMED_COLUMN, some, dtype=pl.Binary).set(~bad, None)
        detail = describe_faults(decoder, some, bad, faults).alias(MALFORMED_DETAIL_COLUMN)
        yield rows.with_columns(raw, detail).select(schema.names())


_CHUNK = 8 << 20
# A quote that hasn't closed after so many bytes never does, and affects only its own line.
_LONGEST = 64 << 20
# A field of CSV, as in ``CsvPayloads``, and its end, which is empty where data or a quote goes on.
_FIELD = re.compile(
    rb'(?:"(?:[^"\\]|\\.|"")*+"(?:\r(?=\n|\Z))?|[^",\n][^,\n]*+|)([,\n]|\Z|(?=.))', re.DOTALL
)


def read_text_records(path: Path, size: int, *, quotes: bool) -> Iterator[list[bytes]]:
    """Yield the records of a file of ``size`` bytes, some megabytes at a time, without empty lines.

    With ``quotes``, a quoted field may contain a line feed. Raises ``OSError`` for a shorter file.
    """
    chunks: list[bytes] = []
    with path.open("rb") as file:
        remaining = size
        while remaining or chunks:
            chunk = file.read(min(remaining, _CHUNK))
            if remaining and not chunk:
                raise OSError(f"it ends {remaining} bytes early")
            remaining -= len(chunk)
            chunks.append(chunk)
            if remaining and b"\n" not in chunk:
                continue  # Joining the chunks of an endless line each time would be quadratic.
            data = b"".join(chunks)
            records, rest = split_records(data, quotes=quotes, last=not remaining)
            chunks = [rest] if rest else []
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
    records, start = [], 0
    while start < len(data):
        end = _record_end(data, start, last=last)
        if end is None:
            if not last and len(data) - start <= _LONGEST:
                break
            end = _line_end(data, start, last=last)
            if end is None:
                break
        records.append(data[start:end])
        start = end + 1
    return records, data[start:]


def _record_end(data: bytes, start: int, *, last: bool) -> int | None:
    """Return the end of the record at a position; ``None`` if a quote isn't closed.

    If something other than a comma or the line's end follows a closed quote, the record is
    malformed and ends with its first line, since that quote may belong to another record.
    """
    position = start
    while True:
        field = _FIELD.match(data, position)
        assert field is not None
        if field[1] == b",":
            position = field.end()
        elif field[1] or (last and field.end() == len(data)):
            return field.start(1)
        elif position < field.end() < len(data):
            return _line_end(data, start, last=last)
        else:
            return None


def _line_end(data: bytes, start: int, *, last: bool) -> int | None:
    """Return the end of the line at a position; ``None`` if the rest of it isn't read yet."""
    end = data.find(b"\n", start)
    return end if end >= 0 else len(data) if last else None
