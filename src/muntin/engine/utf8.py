r"""Text that isn't UTF-8: Spark has whatever bytes were cast to text, the engine doesn't.

Such text is found where messages reach Python, escaped (``\xff``) so that it can be shown, and
marked, so that messages are rejected where something would be computed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

# The names of a message's columns whose text isn't UTF-8; only in frames that have such a message.
GARBLED = "__muntin_garbled"


def frame_of(table: pa.Table) -> pl.DataFrame:
    """Columns from Arrow, of which text may be any bytes; with ``GARBLED`` where some isn't UTF-8.

    Nested values with such text are null: their parts can't be escaped one by one.
    """
    if _valid(table):
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame
    found, bad = [], {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _valid(column):
            column, bad[name] = _repaired(column)
        found.append(pl.Series(name, column))
    return marked(pl.DataFrame(found), bad)


def marked(messages: pl.DataFrame, bad: dict[str, pl.Series]) -> pl.DataFrame:
    """Messages with ``GARBLED``.

    Args:
        messages: The messages.
        bad: By column, which messages' text isn't UTF-8.
    """
    names = [pl.when(rows).then(pl.lit(name)) for name, rows in bad.items() if rows.any()]
    if not names:
        return messages
    return messages.with_columns(pl.concat_list(names).list.drop_nulls().alias(GARBLED))


def text(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Bytes as text, escaped where they aren't any, and which these are."""
    try:
        return values.cast(pl.String), pl.repeat(False, len(values), eager=True)
    except pl.exceptions.PolarsError:
        found = [None if value is None else _decoded(value) for value in values]
    texts = pl.Series(values.name, [None if f is None else f[0] for f in found], dtype=pl.String)
    return texts, pl.Series([f is not None and f[1] for f in found], dtype=pl.Boolean)


def unchecked(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """A batch in which columns of bytes are text as they are: Spark takes any bytes for text.

    Args:
        batch: The batch.
        names: The columns of bytes that are to be text.
    """
    for place, name in enumerate(batch.schema.names):
        if name in names:
            held = batch.column(place)
            made = pa.Array.from_buffers(
                pa.string(), len(held), held.buffers(), held.null_count, held.offset
            )
            batch = batch.set_column(place, name, made)
    return batch


def _decoded(value: bytes) -> tuple[str, bool]:
    try:
        return value.decode(), False
    except UnicodeDecodeError:
        return value.decode(errors="backslashreplace"), True


def _repaired(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray | pl.Series, pl.Series]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return text(pl.Series(column.cast(pa.large_binary())))
    rows = _invalid(column.slice, 0, len(column))
    bad = pl.Series([False]).new_from_index(0, len(column)).scatter(rows, True)
    nothing = pa.nulls(len(column), kind)
    return pc.if_else(pa.array(bad.to_list()), nothing, column), bad


def _invalid(part: Callable[[int, int], pa.ChunkedArray], start: int, count: int) -> list[int]:
    """The rows that hold text that isn't UTF-8, by halves."""
    # What a slice doesn't show is checked too, unless it is copied.
    rows = part(start, count)
    if _valid(rows.take(pa.array(range(count)))):
        return []
    if count == 1:
        return [start]
    half = count // 2
    return [*_invalid(part, start, half), *_invalid(part, start + half, count - half)]


def _valid(held: pa.Table | pa.ChunkedArray) -> bool:
    try:
        held.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
