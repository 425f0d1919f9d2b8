"""Rows as JSON, column by column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from muntin.engine.session_zone import SessionZone, session_zone
from muntin.model.axis import DAY

# What JSON has other signs for within a text.
_ESCAPES = {chr(n): f"\\u{n:04x}" for n in range(32)} | {'"': '\\"', "\\": "\\\\"}
_ESCAPES |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_NULL = pl.lit("null")
# Polars writes times of some 262 000 years; beyond, the calendar of 40 000 years before is used.
_FAR, _SHIFT_YEARS = 8_000_000_000_000_000_000, 40_000
_SHIFT = _SHIFT_YEARS // 400 * 146_097 * DAY


def objects(rows: pl.DataFrame, names: Sequence[str], zone: str) -> pl.Series:
    r"""Some columns of each row as a JSON object.

    Nulls are written. Moments have six digits and an offset (``Z`` for UTC's), local times none;
    bytes are base64, numbers that are none text (``"NaN"``, ``"Infinity"``), maps objects. A zone
    that only Java knows is UTC.

    Example:
        >>> objects(pl.DataFrame({"k": ['a"'], "x": [None], "l": [[1.5]]}), ["k", "l"], "UTC")[0]
        '{"k":"a\\"","l":[1.5]}'
    """
    texts = _Texts(_zone(zone), far=any(map(_may_be_far, (rows[name] for name in names))))
    fields = ((name, texts.of(pl.col(name), rows.schema[name])) for name in names)
    return rows.select(_object(fields).alias("json"))["json"]


def moments(rows: pl.DataFrame, name: str, zone: str) -> pl.Series:
    """A column of times as ISO text, with six digits."""
    texts = _Texts(_zone(zone), far=_may_be_far(rows[name]))
    return rows.select(texts.time(pl.col(name), rows.schema[name]))[name]


def _zone(name: str) -> SessionZone:
    # In UTC it is the same moment.
    return session_zone(name) or SessionZone()


@dataclass(frozen=True)
class _Texts:
    """Values as JSON, as expressions that are null where the value is.

    Attributes:
        zone: The zone that moments are written in.
        far: Whether there may be times that Polars doesn't write.
    """

    zone: SessionZone
    far: bool

    def of(self, value: pl.Expr, kind: Any) -> pl.Expr:
        """Values of a type."""
        if kind.is_float():
            found = value.cast(pl.String)
            for number, name in (("inf", "Infinity"), ("-inf", "-Infinity"), ("NaN", "NaN")):
                found = pl.when(found == number).then(pl.lit(f'"{name}"')).otherwise(found)
            return found
        if kind.is_numeric() or isinstance(kind, pl.Boolean | pl.Null):
            return value.cast(pl.String)
        if isinstance(kind, pl.List | pl.Array):
            return self._list(value, kind)
        if isinstance(kind, pl.Map):
            return self._map(value, kind)
        if isinstance(kind, pl.Struct):
            fields = ((f.name, self.of(value.struct.field(f.name), f.dtype)) for f in kind.fields)
            return pl.when(value.is_not_null()).then(_object(fields))
        return _quoted(self._text(value, kind))

    def _text(self, value: pl.Expr, kind: pl.DataType) -> pl.Expr:
        if isinstance(kind, pl.Binary):
            return value.bin.encode("base64")
        if isinstance(kind, pl.Datetime):
            return self.time(value, kind)
        if isinstance(kind, pl.Duration):
            return _interval(value)
        if isinstance(kind, pl.Date | pl.Time):
            return value.cast(pl.String)
        return value.cast(pl.String).str.replace_many([*_ESCAPES], [*_ESCAPES.values()])

    def _list(self, value: pl.Expr, kind: pl.List | pl.Array) -> pl.Expr:
        held = value.arr.to_list() if isinstance(kind, pl.Array) else value
        texts = held.list.eval(self.of(pl.element(), kind.inner).fill_null(_NULL))
        return _within("[", texts.list.join(","), "]")

    def _map(self, value: pl.Expr, kind: pl.Map) -> pl.Expr:
        pairs = value.cast(pl.List(pl.Struct({"key": kind.key, "value": kind.value})))
        key, held = (pl.element().struct.field(name) for name in ("key", "value"))
        name = self.of(key, kind.key)
        name = pl.when(name.str.starts_with('"')).then(name).otherwise(_quoted(name))
        made = pl.concat_str(name, pl.lit(":"), self.of(held, kind.value).fill_null(_NULL))
        return _within("{", pairs.list.eval(made).list.join(","), "}")

    def time(self, value: pl.Expr, kind: pl.DataType) -> pl.Expr:
        """Times as ISO text."""
        assert isinstance(kind, pl.Datetime)
        if not self.far:
            shown, end = self._shown(value, kind)
            return _written(shown, end)
        number = value.dt.timestamp("us")
        turns = (number > _FAR).cast(pl.Int64) - (number < -_FAR).cast(pl.Int64)
        shown, end = self._shown(value - pl.duration(microseconds=turns * _SHIFT), kind)
        year = (shown.dt.year().cast(pl.Int64) + turns * _SHIFT_YEARS).cast(pl.String)
        signed = pl.when(turns > 0).then(pl.lit("+") + year).otherwise(year)
        far = pl.concat_str(signed, _written(shown, end, year=""))
        return pl.when(turns == 0).then(_written(shown, end)).otherwise(far)

    def _shown(self, value: pl.Expr, kind: pl.Datetime) -> tuple[pl.Expr, str]:
        """Times as a clock of the zone shows them, and how the offset is written."""
        if kind.time_zone is None:
            return value, ""
        return self.zone.local(value)


def _written(shown: pl.Expr, end: str, year: str = "%Y") -> pl.Expr:
    text = shown.dt.strftime(f"{year}-%m-%dT%H:%M:%S%.6f{end}")
    return text.str.replace(r"\+00:00$", "Z") if end else text


def _object(fields: Iterable[tuple[str, pl.Expr]]) -> pl.Expr:
    parts: list[pl.Expr] = []
    for name, text in fields:
        label = f"{',' if parts else '{'}{json.dumps(name, ensure_ascii=False)}:"
        parts += [pl.lit(label), text.fill_null(_NULL)]
    return pl.concat_str(*parts, pl.lit("}")) if parts else pl.lit("{}")


def _within(start: str, text: pl.Expr, end: str) -> pl.Expr:
    return pl.concat_str(pl.lit(start), text, pl.lit(end))


def _quoted(text: pl.Expr) -> pl.Expr:
    return _within('"', text, '"')


def _interval(value: pl.Expr) -> pl.Expr:
    """As SQL has it: ``INTERVAL '1 02:03:04.5' DAY TO SECOND``."""
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
        return any(isinstance(leaf, pl.Datetime) for leaf in _leaves(kind))
    return bool((column.cast(pl.Int64).abs() > _FAR).any())


def _leaves(kind: Any) -> Iterable[Any]:
    if isinstance(kind, pl.Struct):
        for field in kind.fields:
            yield from _leaves(field.dtype)
    elif isinstance(kind, pl.List | pl.Array):
        yield from _leaves(kind.inner)
    elif isinstance(kind, pl.Map):
        yield from _leaves(kind.key)
        yield from _leaves(kind.value)
    else:
        yield kind
