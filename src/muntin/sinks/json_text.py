"""Converts rows in this process to JSON and to texts, with Spark's formats of values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import polars as pl

from muntin.engine.session_zone import SessionZone, find_session_zone
from muntin.engine.utf8 import decode_with_escapes
from muntin.model.axis import DAY
from muntin.state.rows import FEW_ROWS

# Characters that JSON escapes within a text.
_ESCAPES = {chr(n): f"\\u{n:04x}" for n in range(32)} | {'"': '\\"', "\\": "\\\\"}
_ESCAPES |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_NULL = pl.lit("null")
# Polars formats times within some 262 000 years; later ones are shifted by 40 000 years.
_FAR, _SHIFT_YEARS = 8_000_000_000_000_000_000, 40_000
_SHIFT = _SHIFT_YEARS // 400 * 146_097 * DAY


def format_objects(rows: pl.DataFrame, names: Sequence[str], zone: str) -> pl.Series:
    r"""Format columns of each row as a JSON object.

    Nulls are included. Times have six digits and an offset (``Z`` for UTC's), local times no
    offset; bytes are base64, ``NaN`` and infinities are text, maps are objects. A zone
    that only Java knows is treated as UTC.

    Example:
        >>> rows = pl.DataFrame({"k": ['a"'], "x": [None], "l": [[1.5]]})
        >>> format_objects(rows, ["k", "l"], "UTC")[0]
        '{"k":"a\\"","l":[1.5]}'
    """
    return format_several(rows, {"json": names}, zone)["json"]


def format_several(
    rows: pl.DataFrame, objects: Mapping[str, Sequence[str]], zone: str
) -> pl.DataFrame:
    """Format several JSON objects of each row; a column that some of them share, only once.

    Args:
        rows: The rows.
        objects: The columns of each object, by the name of the column of texts to return.
        zone: The time zone in which times are written.
    """
    columns = [rows[name] for name in dict.fromkeys(chain.from_iterable(objects.values()))]
    types = tuple((column.name, column.dtype) for column in columns)
    expressions = _build_texts(types, zone, far=any(map(_may_be_far, columns)))
    layout = tuple((name, *held) for name, held in objects.items())
    if len(rows) <= FEW_ROWS:
        return rows.select_seq(expressions).select_seq(_build_objects(layout))
    return rows.select(expressions).select(_build_objects(layout))


# The batches of a query share their expressions.
@lru_cache(maxsize=64)
def _build_texts(
    types: tuple[tuple[str, pl.DataType], ...], zone: str, *, far: bool
) -> list[pl.Expr]:
    """Return the expressions of columns as texts of JSON, by their names."""
    texts = _JsonFormatter(_find_zone(zone), far=far)
    return [texts.format_value(pl.col(name), kind).alias(name) for name, kind in types]


@lru_cache(maxsize=64)
def _build_objects(objects: tuple[tuple[str, ...], ...]) -> list[pl.Expr]:
    """Return the expressions of objects: the name of each, and those of its columns of texts."""
    return [
        _format_object((column, pl.col(column)) for column in columns).alias(name)
        for name, *columns in objects
    ]


def format_values(rows: pl.DataFrame, name: str, zone: str) -> pl.Series:
    """Format a column of any type as JSON values; nulls stay."""
    texts = _JsonFormatter(_find_zone(zone), far=_may_be_far(rows[name]))
    return rows.select(texts.format_value(pl.col(name), rows.schema[name]).alias(name))[name]


def format_times(rows: pl.DataFrame, name: str, zone: str) -> pl.Series:
    """Format a column of times as ISO text, with six digits."""
    texts = _JsonFormatter(_find_zone(zone), far=_may_be_far(rows[name]))
    return rows.select(texts.format_time(pl.col(name), rows.schema[name]))[name]


def _find_zone(name: str) -> SessionZone:
    # UTC shows the same instant.
    return find_session_zone(name) or SessionZone()


@dataclass(frozen=True)
class _JsonFormatter:
    """Builds expressions that format values as JSON; they are null where the value is.

    Attributes:
        zone: The zone in which times are written.
        far: True if there may be times outside Polars' range.
    """

    zone: SessionZone
    far: bool

    def format_value(self, value: pl.Expr, kind: Any) -> pl.Expr:
        """Return an expression that formats values of a type."""
        if kind.is_float():
            text = value.cast(pl.String)
            for number, name in (("inf", "Infinity"), ("-inf", "-Infinity"), ("NaN", "NaN")):
                text = pl.when(text == number).then(pl.lit(f'"{name}"')).otherwise(text)
            return text
        if kind.is_numeric() or isinstance(kind, pl.Boolean | pl.Null):
            return value.cast(pl.String)
        if isinstance(kind, pl.List | pl.Array):
            return self._format_list(value, kind)
        if isinstance(kind, pl.Map):
            return self._format_map(value, kind)
        if isinstance(kind, pl.Struct):
            fields = (
                (f.name, self.format_value(value.struct.field(f.name), f.dtype))
                for f in kind.fields
            )
            return pl.when(value.is_not_null()).then(_format_object(fields))
        return _quote(self._format_text(value, kind))

    def _format_text(self, value: pl.Expr, kind: pl.DataType) -> pl.Expr:
        if isinstance(kind, pl.Binary):
            return value.bin.encode("base64")
        if isinstance(kind, pl.Datetime):
            return self.format_time(value, kind)
        if isinstance(kind, pl.Duration):
            return _format_interval(value)
        if isinstance(kind, pl.Date | pl.Time):
            return value.cast(pl.String)
        return value.cast(pl.String).str.replace_many([*_ESCAPES], [*_ESCAPES.values()])

    def _format_list(self, value: pl.Expr, kind: pl.List | pl.Array) -> pl.Expr:
        held = value.arr.to_list() if isinstance(kind, pl.Array) else value
        texts = held.list.eval(self.format_value(pl.element(), kind.inner).fill_null(_NULL))
        return _enclose("[", texts.list.join(","), "]")

    def _format_map(self, value: pl.Expr, kind: pl.Map) -> pl.Expr:
        pairs = value.cast(pl.List(pl.Struct({"key": kind.key, "value": kind.value})))
        key, held = (pl.element().struct.field(name) for name in ("key", "value"))
        name = self.format_value(key, kind.key)
        name = pl.when(name.str.starts_with('"')).then(name).otherwise(_quote(name))
        entry = pl.concat_str(
            name, pl.lit(":"), self.format_value(held, kind.value).fill_null(_NULL)
        )
        return _enclose("{", pairs.list.eval(entry).list.join(","), "}")

    def format_time(self, value: pl.Expr, kind: pl.DataType) -> pl.Expr:
        """Return an expression that formats times as ISO text."""
        assert isinstance(kind, pl.Datetime)
        if not self.far:
            local, end = self._to_local(value, kind)
            return _format_local(local, end)
        number = value.dt.timestamp("us")
        shifts = (number > _FAR).cast(pl.Int64) - (number < -_FAR).cast(pl.Int64)
        local, end = self._to_local(value - pl.duration(microseconds=shifts * _SHIFT), kind)
        year = (local.dt.year().cast(pl.Int64) + shifts * _SHIFT_YEARS).cast(pl.String)
        signed = pl.when(shifts > 0).then(pl.lit("+") + year).otherwise(year)
        far = pl.concat_str(signed, _format_local(local, end, year=""))
        return pl.when(shifts == 0).then(_format_local(local, end)).otherwise(far)

    def _to_local(self, value: pl.Expr, kind: pl.Datetime) -> tuple[pl.Expr, str]:
        """Convert times to the zone's clock; also return the format of the offset."""
        if kind.time_zone is None:
            return value, ""
        return self.zone.local(value)


def _format_local(local: pl.Expr, end: str, year: str = "%Y") -> pl.Expr:
    text = local.dt.strftime(f"{year}-%m-%dT%H:%M:%S%.6f{end}")
    return text.str.replace(r"\+00:00$", "Z") if end else text


def _format_object(fields: Iterable[tuple[str, pl.Expr]]) -> pl.Expr:
    parts: list[pl.Expr] = []
    for name, text in fields:
        label = f"{',' if parts else '{'}{json.dumps(name, ensure_ascii=False)}:"
        parts += [pl.lit(label), text.fill_null(_NULL)]
    return pl.concat_str(*parts, pl.lit("}")) if parts else pl.lit("{}")


def _enclose(start: str, text: pl.Expr, end: str) -> pl.Expr:
    return pl.concat_str(pl.lit(start), text, pl.lit(end))


def _quote(text: pl.Expr) -> pl.Expr:
    return _enclose('"', text, '"')


def _format_interval(value: pl.Expr) -> pl.Expr:
    """Format a duration as SQL: ``INTERVAL '1 02:03:04.5' DAY TO SECOND``."""
    micros = value.dt.total_microseconds()
    size = micros.abs()
    text = pl.from_epoch(size % DAY, "us").dt.strftime("%H:%M:%S%.6f").str.replace(r"\.?0+$", "")
    sign = pl.when(micros < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    days = (size // DAY).cast(pl.String)
    return pl.concat_str(
        pl.lit("INTERVAL '"), sign, days, pl.lit(" "), text, pl.lit("' DAY TO SECOND")
    )


def _may_be_far(column: pl.Series) -> bool:
    kind = column.dtype
    if not isinstance(kind, pl.Datetime):
        return any(isinstance(leaf, pl.Datetime) for leaf in _list_leaves(kind))
    if column.null_count() == len(column):
        return False
    numbers = column.cast(pl.Int64)
    least, greatest = int(numbers.min()), int(numbers.max())  # type: ignore[arg-type]
    return least < -_FAR or greatest > _FAR


def _list_leaves(kind: Any) -> Iterable[Any]:
    if isinstance(kind, pl.Struct):
        for field in kind.fields:
            yield from _list_leaves(field.dtype)
    elif isinstance(kind, pl.List | pl.Array):
        yield from _list_leaves(kind.inner)
    elif isinstance(kind, pl.Map):
        yield from _list_leaves(kind.key)
        yield from _list_leaves(kind.value)
    else:
        yield kind


def list_json_objects(frame: pl.DataFrame) -> list[str]:
    """Return each row as a JSON object with all of its columns.

    Example:
        >>> list_json_objects(pl.DataFrame({"page": ["home"], "n": [None]}))
        ['{"page":"home","n":null}']
    """
    return format_objects(frame, frame.columns, "UTC").to_list()


def list_texts(frame: pl.DataFrame) -> list[tuple[str | None, ...]]:
    """Return each row's values as texts; nested values become JSON.

    Example:
        >>> from datetime import datetime
        >>> list_texts(pl.DataFrame({"at": [datetime(2026, 1, 1, 9)], "l": [[1]], "n": [None]}))
        [('2026-01-01 09:00:00', '[1]', None)]
    """
    columns = [_format_column(frame, name) for name in frame.columns]
    return list(zip(*(column.to_list() for column in columns), strict=True))


def _format_column(frame: pl.DataFrame, name: str) -> pl.Series:
    kind, column = frame.schema[name], frame[name]
    if isinstance(kind, pl.Binary):
        return decode_with_escapes(column)[0]
    return format_values(frame, name, "UTC") if kind.is_nested() else format_text(column, "UTC")


def format_text(column: pl.Series, zone: str) -> pl.Series:
    """Format values without parts as text, as Spark casts them."""
    if not isinstance(column.dtype, pl.Datetime):
        return column.cast(pl.String)
    text = format_times(column.to_frame("at"), "at", zone).str.replace("T", " ")
    return text.str.replace(r"(Z|[+-]\d\d:\d\d)$", "").str.replace(r"\.?0+$", "")
