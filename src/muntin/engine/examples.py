"""Names one rejected message for each reason, without its payload."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from muntin.engine import columns

# The columns by which a topic's message is found again.
_POSITION = ("topic", "partition", "offset", "key", "malformed_detail")
_MOST_CHARACTERS = 100


def find_examples(rejected: pl.DataFrame, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return a rejected message for each reason as part of an operator's figures.

    Args:
        rejected: The rejected messages, with their reason.
        names: Names of the key columns, and of those of the position in the source.

    Example:
        >>> late = pl.DataFrame(
        ...     {"page": ["home"], "offset": [7], "ip": ["::1"], "reason": ["late"]}
        ... )
        >>> find_examples(late, ["page"])
        {'examples': {'late': "offset=7, page='home'"}}
    """
    if rejected.is_empty():
        return {}
    wanted = dict.fromkeys((*_POSITION, *names))
    shown = [name for name in wanted if name in rejected.columns]
    firsts = rejected.select(*shown, columns.REASON).unique(columns.REASON, keep="first")
    rows = firsts.sort(columns.REASON).iter_rows(named=True)
    return {"examples": {row.pop(columns.REASON): _format_values(row) for row in rows}}


def _format_values(row: dict[str, Any]) -> str:
    values = ((name, value) for name, value in row.items() if value is not None)
    return ", ".join(f"{name}={_format_value(value)}" for name, value in values)


def _format_value(value: Any) -> str:
    text = repr(value if isinstance(value, int | float | str | bytes) else str(value))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
