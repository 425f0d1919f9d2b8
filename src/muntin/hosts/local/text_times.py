"""Parses texts as times."""

from __future__ import annotations

import polars as pl

_ZONED = "%Y-%m-%dT%H:%M:%S%.f%#z"
_PLAIN = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


def parse_times(text: pl.Expr) -> pl.Expr:
    """Return texts in ISO form as microseconds, in UTC without a zone; NULL for other texts.

    Example:
        >>> texts = pl.DataFrame({"at": ["1970-01-01 00:00:01", "1970-01-01T01:00+01:00", "now"]})
        >>> texts.select(parse_times(pl.col("at")))["at"].to_list()
        [1000000, None, None]
    """
    iso = text.str.replace(" ", "T", literal=True)
    zoned = iso.str.to_datetime(_ZONED, time_unit="us", strict=False).cast(pl.Int64)
    plain = (
        iso.str.to_datetime(one, time_unit="us", time_zone="UTC", strict=False).cast(pl.Int64)
        for one in _PLAIN
    )
    return pl.coalesce(zoned, *plain)
