r"""Handling of text that isn't UTF-8, which Spark allows and the engine doesn't.

Such text is detected when messages reach Python. It is escaped (``\xff``), so that it can be shown,
and marked, so that a message is rejected if the query computes with it.
"""

from __future__ import annotations

import codecs
import threading
from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

Rows = NDArray[np.bool_]

# The names of a message's columns with invalid text; only in frames with such a message.
GARBLED = "__muntin_garbled"


def frame_of(table: pa.Table) -> pl.DataFrame:
    """Convert an Arrow table, and add ``GARBLED`` if some of its text isn't UTF-8."""
    if _valid(table):
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame
    found, bad = [], {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _valid(column):
            parts = [_escaped(part) for part in column.chunks]
            column = pa.chunked_array([part for part, _ in parts])
            bad[name] = pl.Series(np.concatenate([rows for _, rows in parts]))
        found.append(pl.Series(name, column))
    return marked(pl.DataFrame(found), bad)


def from_pandas(data: Any) -> pl.DataFrame:
    """Convert a pandas frame; text with half a surrogate pair is escaped and marked."""
    try:
        return pl.DataFrame(data)
    except UnicodeEncodeError:
        found = {}
    for name in data.columns:
        column = data[name]
        if not column.map(type).eq(str).any():
            found[name] = pl.DataFrame(data[[name]]).to_series().to_arrow()
            continue
        raw = [v.encode(errors="surrogatepass") if isinstance(v, str) else None for v in column]
        held = pa.array(raw, pa.large_binary())
        found[name] = pa.Array.from_buffers(pa.large_string(), len(held), held.buffers())
    return frame_of(pa.table(found))


def marked(messages: pl.DataFrame, bad: dict[str, pl.Series]) -> pl.DataFrame:
    """Add ``GARBLED`` to messages, given the rows with invalid text of each column."""
    names = [pl.when(rows).then(pl.lit(name)) for name, rows in bad.items() if rows.any()]
    if not names:
        return messages
    return messages.with_columns(pl.concat_list(names).list.drop_nulls().alias(GARBLED))


def text(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Decode bytes, with escapes where they aren't UTF-8, and return which rows those are."""
    texts = decode_text(values)
    bad = texts.is_null() & values.is_not_null()
    rows = bad.arg_true()
    if len(rows):
        escaped = [value.decode(errors="backslashreplace") for value in values.gather(rows)]
        texts = texts.scatter(rows, escaped)
    return texts, bad


def decode_text(values: pl.Series) -> pl.Series:
    """Decode bytes as UTF-8, with null for those that aren't valid."""
    try:
        return values.cast(pl.String)
    except pl.exceptions.PolarsError:
        held = values.to_arrow().cast(pa.large_binary())
    _, offsets, data = held.buffers()
    ends = np.frombuffer(offsets, np.int64)[held.offset : held.offset + len(held) + 1]
    data = np.frombuffer(data, np.uint8).copy()
    bad = _find_garbled(data, ends)
    for start, end in zip(ends[:-1][bad], ends[1:][bad], strict=True):
        data[start:end] = 0
    made = pa.Array.from_buffers(
        pa.large_string(), len(held), [None, *map(pa.py_buffer, (ends, data))]
    )
    return pl.Series(values.name, made).set(pl.Series(bad) | values.is_null(), None)


def _find_garbled(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> Rows:
    """Return which pieces of bytes aren't UTF-8; ``ends`` starts with the start of the first."""
    _NOTED.offsets = []
    first, last = ends[0], ends[-1]
    codecs.decode(data[first:last].tobytes(), "utf-8", _NOTE)
    wrong = np.array(_NOTED.offsets, np.int64) + first
    starts, sizes = ends[:-1], np.diff(ends)
    garbled = np.zeros(len(sizes), np.bool_)
    garbled[np.searchsorted(ends, wrong, "right") - 1] = True
    # A character that continues in the next piece makes both pieces invalid.
    begun = np.flatnonzero(sizes > 0)
    continued = begun[(data[starts[begun]] & 0xC0) == 0x80]
    garbled[continued] = True
    joined = continued[~np.isin(starts[continued], wrong)]
    garbled[begun[np.searchsorted(begun, joined) - 1]] = True
    return garbled


def _note(error: UnicodeError) -> tuple[str, int]:
    """Record the position of invalid bytes, and continue after them."""
    assert isinstance(error, UnicodeDecodeError)
    _NOTED.offsets.append(error.start)
    return "", error.end


_NOTED, _NOTE = threading.local(), "muntin.note"
codecs.register_error(_NOTE, _note)


def unchecked(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Turn some columns of bytes into text without validation, which Spark accepts."""
    for place, name in enumerate(batch.schema.names):
        if name in names:
            held = batch.column(place)
            made = pa.Array.from_buffers(
                pa.string(), len(held), held.buffers(), held.null_count, held.offset
            )
            batch = batch.set_column(place, name, made)
    return batch


def _escaped(array: pa.Array) -> tuple[pa.Array, Rows]:
    """Escape invalid text at any depth of values, and return which values have some."""
    kind, there = array.type, array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind):
        made, bad = _escaped(array.dictionary_decode())
        return made.dictionary_encode(), bad
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts, marks = text(pl.Series(array.cast(pa.large_binary())))
        return texts.to_arrow().cast(pa.large_string()), marks.to_numpy()
    if pa.types.is_struct(kind) and kind.num_fields:
        parts = [_escaped(array.field(place)) for place in range(kind.num_fields)]
        held = [part for part, _ in parts]
        fields = [field.with_type(part.type) for field, part in zip(kind, held, strict=True)]
        made = pa.StructArray.from_arrays(held, fields=fields, mask=array.is_null())
        return made, np.any([bad for _, bad in parts], axis=0) & there
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        values, bad = _escaped(array.values.slice(array.offset * size, len(array) * size))
        made = type(array).from_arrays(values, size, mask=array.is_null())
        return made, bad.reshape(len(array), size).any(axis=1) & there
    is_map = pa.types.is_map(kind)
    if not (is_map or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return array, np.zeros(len(array), dtype=np.bool_)
    # The child array of a slice also has values before and after the slice.
    ends = array.offsets.to_numpy()
    own = slice(ends[0], ends[-1])
    offsets = pa.array(ends - ends[0], array.offsets.type)
    inner = (array.keys, array.items) if is_map else (array.values,)
    parts = [_escaped(part[own]) for part in inner]
    held = [part for part, _ in parts]
    made = type(array).from_arrays(offsets, *held, mask=array.is_null())
    sums = np.concatenate([[0], np.cumsum(np.any([bad for _, bad in parts], axis=0))])
    return made, (np.diff(sums[ends - ends[0]]) > 0) & there


def _valid(held: pa.Table | pa.ChunkedArray) -> bool:
    try:
        held.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
