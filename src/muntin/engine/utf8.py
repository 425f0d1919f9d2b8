r"""Handling of text that isn't UTF-8, which Spark allows and the engine doesn't.

Such text is detected when messages reach Python. It is escaped (``\xff``), so that it can be shown,
and marked, so that a message is rejected if the query computes with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

# The names of a message's columns with invalid text; only in frames with such a message.
GARBLED = "__muntin_garbled"

# The whole of a valid text: RFC 3629, section 4. Arrow searches in bytes, so each of them counts.
_CONTINUED = r"[\x80-\xbf]"
_VALID = (
    rf"\A(?:[\x00-\x7f]|[\xc2-\xdf]{_CONTINUED}|\xe0[\xa0-\xbf]{_CONTINUED}"
    rf"|[\xe1-\xec\xee\xef]{_CONTINUED}{{2}}|\xed[\x80-\x9f]{_CONTINUED}"
    rf"|\xf0[\x90-\xbf]{_CONTINUED}{{2}}|[\xf1-\xf3]{_CONTINUED}{{3}}"
    rf"|\xf4[\x80-\x8f]{_CONTINUED}{{2}})*\z"
)
# The least byte of characters of several bytes.
_BEYOND_ASCII = 0x80


def frame_from_arrow(table: pa.Table) -> pl.DataFrame:
    """Convert an Arrow table, and add ``GARBLED`` if some of its text isn't UTF-8."""
    if _is_valid(table):
        batches = table.to_batches() if table.num_columns else []
        # One batch is taken over as it is, in a third of the time of a table.
        frame = pl.DataFrame(batches[0]) if len(batches) == 1 else pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame
    series, garbled = [], {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _is_valid(column):
            parts = [_escape(part) for part in column.chunks]
            column = pa.chunked_array([part for part, _ in parts])
            garbled[name] = pl.Series(np.concatenate([rows for _, rows in parts]))
        series.append(pl.Series(name, column))
    return mark_garbled(pl.DataFrame(series), garbled)


def from_pandas(data: Any) -> pl.DataFrame:
    """Convert a pandas frame, with the named levels of its index as columns.

    Text with half a surrogate pair is escaped and marked.
    """
    levels = [name for name in data.index.names if name is not None and name not in data.columns]
    if levels:
        data = data.reset_index(level=levels)
    try:
        return pl.DataFrame(data)
    except UnicodeEncodeError:
        columns = {}
    for name in data.columns:
        column = data[name]
        if not column.map(type).eq(str).any():
            columns[name] = pl.DataFrame(data[[name]]).to_series().to_arrow()
            continue
        raw = [v.encode(errors="surrogatepass") if isinstance(v, str) else None for v in column]
        binary = pa.array(raw, pa.large_binary())
        columns[name] = pa.Array.from_buffers(pa.large_string(), len(binary), binary.buffers())
    return frame_from_arrow(pa.table(columns))


def mark_garbled(messages: pl.DataFrame, garbled: dict[str, pl.Series]) -> pl.DataFrame:
    """Add ``GARBLED`` to messages, from the rows with invalid text of each column."""
    names = [pl.when(rows).then(pl.lit(name)) for name, rows in garbled.items() if rows.any()]
    if not names:
        return messages
    return messages.with_columns(pl.concat_list(names).list.drop_nulls().alias(GARBLED))


def decode_with_escapes(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Decode bytes, escape those that aren't UTF-8, and return the mask of the escaped rows."""
    texts = decode_text(values)
    if texts.null_count() == values.null_count():
        return texts, pl.Series([False]).new_from_index(0, len(values))
    is_garbled = texts.is_null() & values.is_not_null()
    garbled_rows = is_garbled.arg_true()
    escaped = [value.decode(errors="backslashreplace") for value in values.gather(garbled_rows)]
    return texts.scatter(garbled_rows, escaped), is_garbled


def decode_text(values: pl.Series) -> pl.Series:
    """Decode bytes as UTF-8, with null for those that aren't valid."""
    try:
        return values.cast(pl.String)
    except pl.exceptions.PolarsError:
        binary = values.to_arrow().cast(pa.large_binary())
    _, offsets, data = binary.buffers()
    starts = np.frombuffer(offsets, np.int64)[binary.offset :][: len(binary)]
    # ASCII needs no closer look. An empty value has the byte after it here.
    greatest = np.maximum.reduceat(np.append(np.frombuffer(data, np.uint8), 0), starts)
    others = np.flatnonzero(greatest >= _BEYOND_ASCII)
    is_valid = np.ones(len(binary), np.bool_)
    valid = pc.match_substring_regex(binary.take(others), _VALID).fill_null(True)
    is_valid[others] = valid.to_numpy(zero_copy_only=False)
    # A column of text may hold no invalid bytes at all, not even those of its nulls.
    none = pa.scalar(None, binary.type)
    texts = pc.if_else(is_valid, binary, none).view(pa.large_string())
    return pl.Series(values.name, texts)


def cast_unchecked(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Turn some columns of bytes into text without validation, which Spark accepts."""
    for index, name in enumerate(batch.schema.names):
        if name in names:
            column = batch.column(index)
            texts = pa.Array.from_buffers(
                pa.string(), len(column), column.buffers(), column.null_count, column.offset
            )
            batch = batch.set_column(index, name, texts)
    return batch


def _escape(array: pa.Array) -> tuple[pa.Array, Mask]:
    """Escape invalid text at any depth of values, and return the mask of values that had some."""
    kind, is_valid = array.type, array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind):
        escaped, is_garbled = _escape(array.dictionary_decode())
        return escaped.dictionary_encode(), is_garbled
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts, is_escaped = decode_with_escapes(pl.Series(array.cast(pa.large_binary())))
        return texts.to_arrow().cast(pa.large_string()), is_escaped.to_numpy()
    if pa.types.is_struct(kind) and kind.num_fields:
        parts = [_escape(array.field(index)) for index in range(kind.num_fields)]
        children = [part for part, _ in parts]
        fields = [field.with_type(part.type) for field, part in zip(kind, children, strict=True)]
        escaped = pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
        return escaped, np.any([is_garbled for _, is_garbled in parts], axis=0) & is_valid
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        values, is_garbled = _escape(array.values.slice(array.offset * size, len(array) * size))
        escaped = type(array).from_arrays(values, size, mask=array.is_null())
        return escaped, is_garbled.reshape(len(array), size).any(axis=1) & is_valid
    is_map = pa.types.is_map(kind)
    if not (is_map or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return array, np.zeros(len(array), dtype=np.bool_)
    # The child array of a slice also has values before and after the slice.
    ends = array.offsets.to_numpy()
    own = slice(ends[0], ends[-1])
    offsets = pa.array(ends - ends[0], array.offsets.type)
    inner = (array.keys, array.items) if is_map else (array.values,)
    parts = [_escape(part[own]) for part in inner]
    children = [part for part, _ in parts]
    escaped = type(array).from_arrays(offsets, *children, mask=array.is_null())
    sums = np.concatenate([[0], np.cumsum(np.any([is_garbled for _, is_garbled in parts], axis=0))])
    return escaped, (np.diff(sums[ends - ends[0]]) > 0) & is_valid


def _is_valid(data: pa.Table | pa.ChunkedArray) -> bool:
    try:
        data.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
