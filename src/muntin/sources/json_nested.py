"""JSON payloads with decimals, structs, arrays or maps among their columns.

Columns of plain types are read for many messages at once, as in other JSON, and so are most
decimals. The rest of each message is parsed by itself and becomes columns field by field.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import Mask
from muntin.sources.byte_values import Integers, select_values
from muntin.sources.decimals import convert_plain_decimals, decimal_of, find_no_decimals
from muntin.sources.json_members import as_read, find_members
from muntin.sources.json_payloads import (
    JsonPayloads,
    make_schema,
    read_each,
    read_lines,
    read_strictly,
)
from muntin.sources.lists import items_of, list_of, mark_lists, struct_of
from muntin.sources.payload_lines import PayloadLines
from muntin.sources.payloads import Decoded, Faults, no_faults, renumber_faults
from muntin.sources.text_values import (
    REAL,
    WHOLE,
    convert_texts,
    is_readable,
    null_malformed,
    replace_rows,
    spread_rows,
)

# The text of a member that may be a number, array or object, which Polars formats in its own way.
# A short whole number has one form, with or without quotes.
_MAYBE_NO_TEXT = r"^(\[|\{|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$)"
_ONE_FORM = r"^(0|-?[1-9][0-9]{0,14})$"

_BITS = {pl.Int8: 8, pl.Int16: 16, pl.Int32: 32, pl.Int64: 64}


class _Number(str):
    """The text of a number with a fraction or an exponent, as it was written."""

    __slots__ = ()


def is_nested_json(dtype: Any) -> bool:
    """Return whether a column of a type can be read from JSON."""
    dtype = instance_of(dtype)
    if isinstance(dtype, pl.Struct):
        return bool(dtype.fields) and all(is_nested_json(field.dtype) for field in dtype.fields)
    if isinstance(dtype, pl.List):
        return is_nested_json(dtype.inner)
    if isinstance(dtype, pl.Map):
        return dtype.key == pl.String and is_nested_json(dtype.value)
    return isinstance(dtype, pl.Decimal) or is_readable(dtype)


class NestedJsonPayloads(JsonPayloads):
    """Decodes JSON objects of any types."""

    def _decode_any(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads that are written in any way."""
        read = self._read_many(values)
        if read is None:
            return self._decode_each(values)
        frame, bad, faults, unsure = read
        rows = np.flatnonzero(unsure & ~bad.to_numpy())
        if len(rows):
            part, part_bad, faults[rows] = self._decode_each(select_values(values, rows))
            frame = replace_rows(frame, rows, part.select(frame.columns))
            bad = bad.scatter(rows, part_bad)
        return Decoded(null_malformed(frame, bad), bad, faults)

    def _read_many(
        self, values: Sequence[bytes | None]
    ) -> tuple[pl.DataFrame, pl.Series, Faults, Mask] | None:
        """Read payloads in one call, if Polars can read all columns.

        The result is their rows, the malformed messages and their columns, and the messages that
        have to be read one by one.
        """
        plain = {name: dtype for name, dtype in self.columns.items() if is_readable(dtype)}
        nested = {name: dtype for name, dtype in self.columns.items() if name not in plain}
        read_types = {name: choose_read_type(dtype) for name, dtype in nested.items()}
        types = {name: kind for name, kind in read_types.items() if kind is not None}
        if len(types) < len(nested):
            return None
        schema = make_schema({name: as_read(dtype) for name, dtype in plain.items()} | types)
        frame, rows = read_strictly(values, schema)
        faults, unsure = no_faults(len(values)), np.zeros(len(values), bool)
        is_unlike = np.zeros(len(rows), bool)
        if isinstance(frame, PayloadLines):
            try:
                frame, among, wrong, doubtful, is_unlike = _read_objects(frame, schema, [*plain])
            except PolarsError:
                return None
            faults[rows] = renumber_faults(wrong, plain, self.columns)
            rows = rows[among]
            unsure[rows] = doubtful
        decoded, unlike, of_plain = convert_texts(frame, plain, self.zone)
        faults[rows] = renumber_faults(of_plain, plain, self.columns)
        bad = np.ones(len(values), bool)
        bad[rows] = unlike.to_numpy()
        fitted, of_nested, is_unsure = self._fit_columns(frame, nested)
        unsure[rows] |= is_unsure & ~is_unlike
        of_nested[is_unlike] = next((n for n, one in enumerate(self.columns) if one in nested), -1)
        is_wrong = (of_nested >= 0) & ~bad[rows] & ~unsure[rows]
        faults[rows[is_wrong]], bad[rows[is_wrong]] = of_nested[is_wrong], True
        read = pl.DataFrame([(decoded if name in plain else fitted)[name] for name in self.columns])
        if len(rows) < len(values):
            read = spread_rows(read, rows, len(values))
        return read, pl.Series(bad), faults, unsure

    def _fit_columns(
        self, frame: pl.DataFrame, names: Container[str]
    ) -> tuple[pl.DataFrame, Faults, Mask]:
        """Convert some columns as Polars reads them.

        The result also has the faults of rows that can't be right, and the rows to be read one by
        one.
        """
        columns, faults, unsure = [], no_faults(len(frame)), np.zeros(len(frame), bool)
        for number, (name, dtype) in enumerate(self.columns.items()):
            if name not in names:
                continue
            column, is_unsure = fit_column(frame[name], dtype, self.zone)
            if isinstance(dtype, pl.Decimal) and is_unsure.any():
                is_wrong = find_no_decimals(frame[name], dtype).fill_null(False).to_numpy()
                faults[is_wrong & (faults < 0)] = number
                is_unsure = is_unsure & ~is_wrong
            unsure |= is_unsure
            columns.append(column.cast(dtype).alias(name))
        return pl.DataFrame(columns), faults, unsure

    def _decode_each(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads one by one, except for columns of plain types."""
        plain = {name: dtype for name, dtype in self.columns.items() if is_readable(dtype)}
        frame, bad, of_plain = JsonPayloads(plain, self.zone).decode(values)
        faults = renumber_faults(of_plain, plain, self.columns)
        wrong = bad.to_numpy().copy()
        messages = [
            None if is_bad else _parse_object(value)
            for value, is_bad in zip(values, wrong, strict=True)
        ]
        wrong |= np.fromiter((message is None for message in messages), bool, len(messages))
        columns = []
        for number, (name, dtype) in enumerate(self.columns.items()):
            if name in plain:
                columns.append(frame[name])
                continue
            members = [None if message is None else message.get(name) for message in messages]
            column, unlike = _convert_column(members, dtype, self.zone)
            faults[unlike & ~wrong] = number
            wrong |= unlike
            columns.append(column.cast(dtype).alias(name))
        bad = pl.Series(wrong)
        return Decoded(null_malformed(pl.DataFrame(columns), bad), bad, faults)


def _read_objects(
    lines: PayloadLines, schema: pl.Schema, plain: Sequence[str]
) -> tuple[pl.DataFrame, Integers, Faults, Mask, Mask]:
    """Read the lines whose plain members are of their types.

    The result is their rows and positions, the faults of all lines, the rows to be read one by one,
    since a nested member may be of another type, and those whose first nested member is.
    """
    frame, rows, faults, are_sure = read_each(lines, schema, plain)
    nested = [column for column in frame.get_columns() if column.name not in ("", *plain)]
    if are_sure:
        return frame, rows, faults, np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    unlike = np.zeros(len(rows), bool)
    if nested:
        unlike = _find_unlike(lines.select(rows), nested[0])
    doubtful = np.logical_or.reduce([mark_nulls(column) for column in nested])
    if read_lines(lines.select(rows[~doubtful & ~unlike]), schema) is None:
        doubtful |= np.logical_or.reduce([mark_lists_of(column) for column in nested])
    return frame, rows, faults, doubtful & ~unlike, unlike


def _find_unlike(lines: PayloadLines, column: pl.Series) -> Mask:
    """Return which values of a column certainly aren't of its type, as a null stands for them."""
    unlike = column.is_null().to_numpy().copy()
    rows = np.flatnonzero(unlike)
    if len(rows):
        unlike[rows] = find_members(lines.select(rows), column.name)
    if column.dtype in (pl.List(pl.Int64), pl.List(pl.Float64)):
        rows = np.flatnonzero(mark_nulls(column) & column.is_not_null().to_numpy())
        unlike[rows] = ~lines.select(rows).texts.str.contains("null", literal=True).to_numpy()
    return unlike


def _parse_object(payload: bytes | None) -> dict[str, Any] | None:
    """Parse a message's object, with the text of fractional numbers; ``None`` if it is none."""
    try:
        parsed = _DECODER.decode((payload or b"").decode())
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _take_first(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of repeated members the first one counts, as where Polars reads it."""
    parsed = dict(members)
    return parsed if len(parsed) == len(members) else {**parsed, **dict(reversed(members))}


def _refuse(name: str) -> None:
    """Refuse NaN and the infinities, which JSON doesn't have."""
    raise ValueError(name)


_DECODER = json.JSONDecoder(
    parse_float=_Number, parse_constant=_refuse, object_pairs_hook=_take_first
)


def _convert_column(values: list[Any], dtype: Any, zone: SessionZone) -> tuple[pl.Series, Mask]:
    """Convert values to a column, and return which of them aren't of its type."""
    dtype = instance_of(dtype)
    missing = np.fromiter((value is None for value in values), bool, len(values))
    if isinstance(dtype, pl.Struct):
        return _convert_structs(values, dtype, zone, missing)
    if isinstance(dtype, (pl.List, pl.Map)):
        return _convert_lists(values, dtype, zone, missing)
    if isinstance(dtype, (pl.Datetime, pl.Date)):
        texts = [value if type(value) is str else None for value in values]
        frame = convert_texts(
            pl.DataFrame({"": pl.Series(texts, dtype=pl.String)}), {"": dtype}, zone
        ).rows
        return frame.to_series(), frame.to_series().is_null().to_numpy() & ~missing
    read = _choose_converter(dtype)
    converted = [None if value is None else read(value) for value in values]
    wrong = np.fromiter((value is None for value in converted), bool, len(converted)) & ~missing
    return pl.Series(converted, dtype=dtype), wrong


def _convert_structs(
    values: list[Any], dtype: pl.Struct, zone: SessionZone, missing: Mask
) -> tuple[pl.Series, Mask]:
    is_object = np.fromiter((isinstance(value, dict) for value in values), bool, len(values))
    wrong = ~is_object & ~missing
    parts = []
    for field in dtype.fields:
        members = [value.get(field.name) if isinstance(value, dict) else None for value in values]
        column, unlike = _convert_column(members, field.dtype, zone)
        wrong |= unlike
        parts.append(column.alias(field.name))
    return struct_of(parts, ~is_object), wrong


def _convert_lists(
    values: list[Any], dtype: Any, zone: SessionZone, missing: Mask
) -> tuple[pl.Series, Mask]:
    """Convert arrays, or objects as the entries of maps, to a column of lists."""
    is_map = isinstance(dtype, pl.Map)
    wanted = dict if is_map else list
    is_list = np.fromiter((isinstance(value, wanted) for value in values), bool, len(values))
    whole = [value if fits else () for value, fits in zip(values, is_list, strict=True)]
    sizes = np.fromiter(map(len, whole), np.int64, len(whole))
    items = [item for one in whole for item in (one.values() if isinstance(one, dict) else one)]
    kind: Any = dtype.value if is_map else dtype.inner
    columns, unlike = _convert_column(items, kind, zone)
    if is_map:
        keys, odd = _convert_column([key for one in whole for key in one], pl.String(), zone)
        unlike = unlike | odd
        columns = pl.DataFrame({"key": keys, "value": columns}).to_struct()
        kind = pl.Struct({"key": dtype.key, "value": kind})
    wrong = mark_lists(unlike, sizes)
    return list_of(columns.cast(kind), sizes, ~is_list), wrong | (~is_list & ~missing)


def _choose_converter(dtype: Any) -> Any:
    """Return a function that converts a JSON value to a plain type; ``None`` if it can't."""
    if isinstance(dtype, pl.Decimal):
        return lambda value: decimal_of(value, dtype)
    if isinstance(dtype, pl.String):
        return _to_text
    if isinstance(dtype, pl.Boolean):
        return lambda value: value if isinstance(value, bool) else None
    if isinstance(dtype, REAL):
        return _to_real
    assert isinstance(dtype, WHOLE)
    limit = 2 ** (_BITS[type(dtype)] - 1)
    return lambda value: value if type(value) is int and -limit <= value < limit else None


def _to_real(value: Any) -> float | None:
    if type(value) not in (int, _Number):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    # The number exceeds the range of a double.
    return number if abs(number) != float("inf") else None


def _to_text(value: Any) -> str | None:
    """Return a text, or the JSON of any other value."""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        value.encode()
    except UnicodeEncodeError:
        # The text has half a surrogate pair.
        return None
    return str(value)


def choose_read_type(dtype: pl.DataType) -> pl.DataType | None:
    """Return the type in which Polars reads a column of JSON; ``None`` if it can't."""
    if isinstance(dtype, pl.Struct):
        inner = {field.name: choose_read_type(instance_of(field.dtype)) for field in dtype.fields}
        types = {name: kind for name, kind in inner.items() if kind is not None}
        return pl.Struct(types) if len(types) == len(inner) else None
    if isinstance(dtype, pl.List):
        item = choose_read_type(instance_of(dtype.inner))
        return None if item is None else pl.List(item)
    return None if isinstance(dtype, pl.Map) else as_read(dtype)


def instance_of(dtype: Any) -> pl.DataType:
    """Return an instance of a type, which Polars may give as its class."""
    instance: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return instance


def fit_column(column: pl.Series, dtype: Any, zone: SessionZone) -> tuple[pl.Series, Mask]:
    """Convert a column as Polars reads it to its type, and mark rows to be read one by one."""
    dtype = instance_of(dtype)
    if isinstance(dtype, pl.Struct):
        unsure = np.zeros(len(column), bool)
        parts = []
        for field in dtype.fields:
            part, is_unsure = fit_column(column.struct.field(field.name), field.dtype, zone)
            unsure |= is_unsure
            parts.append(part.alias(field.name))
        return struct_of(parts, column.is_null()), unsure
    if isinstance(dtype, pl.List):
        items, sizes = items_of(column)
        fitted, is_unsure = fit_column(items, dtype.inner, zone)
        lists = list_of(fitted, sizes, column.is_null().to_numpy())
        return lists.alias(column.name), mark_lists(is_unsure, sizes)
    if isinstance(dtype, pl.String):
        unclear = column.str.contains(_MAYBE_NO_TEXT) & ~column.str.contains(_ONE_FORM)
        return column, unclear.fill_null(False).to_numpy()
    if isinstance(dtype, pl.Decimal):
        decimals, is_other = convert_plain_decimals(column, dtype)
        return decimals, is_other.to_numpy()
    if isinstance(dtype, (pl.Date, pl.Datetime)):
        converted = convert_texts(pl.DataFrame({"": column}), {"": dtype}, zone).rows.to_series()
    else:
        converted = column.cast(dtype, strict=False)
    return converted, (converted.is_null() & column.is_not_null()).to_numpy()


def mark_nulls(column: pl.Series) -> Mask:
    """Return which rows of a column have a null, at any depth."""
    nulls = column.is_null().to_numpy().copy()
    if isinstance(column.dtype, pl.Struct):
        for field in column.dtype.fields:
            nulls |= mark_nulls(column.struct.field(field.name))
    elif isinstance(column.dtype, pl.List):
        items, sizes = items_of(column)
        nulls |= mark_lists(mark_nulls(items), sizes)
    return nulls


def mark_lists_of(column: pl.Series) -> Mask:
    """Return which rows of a column have a list with items, which may have been converted."""
    if isinstance(column.dtype, pl.Struct):
        fields = [column.struct.field(field.name) for field in column.dtype.fields]
        marks: Mask = np.logical_or.reduce([mark_lists_of(field) for field in fields])
        return marks
    if isinstance(column.dtype, pl.List):
        return column.list.len().fill_null(0).to_numpy() > 0
    return np.zeros(len(column), bool)
