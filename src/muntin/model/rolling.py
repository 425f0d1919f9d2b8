"""Rolling windows that emit a row for each message: its columns, and the aggregates if any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from muntin.model.aggregates import Aggregate, last_values
from muntin.model.axis import rows
from muntin.model.errors import OptionError
from muntin.model.pipeline import EMISSION_COLUMNS, NUMBER, ROWS, WINDOW_BOUNDS
from muntin.model.sliding import rolling
from muntin.model.spec import WindowSpec

ONE_ROW = rolling(rows(1))
"""The windows of a query without windows: each message has one of its own."""


def emits_messages(spec: WindowSpec) -> bool:
    """Return whether each message is a row of the results."""
    return spec.windows.rolls


def emits_plain_rows(spec: WindowSpec) -> bool:
    """Return whether the results are the messages alone, as of a query without windows."""
    return spec.windows == ONE_ROW and not spec.aggregates.keys() - {ROWS}


def message_columns(spec: WindowSpec, names: Sequence[str], *, chained: bool) -> list[str]:
    """Return the columns of messages that are columns of the results.

    A chained operator's messages are results, whose window columns are left out. Raises
    ``OptionError`` when a column of the results has the name of one of the messages.
    """
    if spec.sets is not None:
        hint = "leave out sets(), or write a query for each set"
        raise OptionError("sets", str(spec.windows), "emit a row for each message", hint)
    added = {*spec.aggregates, NUMBER}
    if chained:
        names = [name for name in names if name not in (*WINDOW_BOUNDS, *EMISSION_COLUMNS, NUMBER)]
    else:
        added |= {*WINDOW_BOUNDS, *EMISSION_COLUMNS}
    for name in names:
        if name in added:
            option = "agg" if name in spec.aggregates else "column"
            problem = "is a column of the messages, which stands in the same row"
            raise OptionError(option, name, problem, "give one of the two another name")
    return list(names)


def add_messages(spec: WindowSpec, row: Any) -> Mapping[str, Aggregate]:
    """Add to the aggregates of a query the messages that a window ends with, as structs ``row``."""
    return {**spec.aggregates, ROWS: collect_own_messages(spec.windows, row)}


def collect_own_messages(windows: Any, row: Any) -> Aggregate:
    """Return the aggregate of the messages that a window ends with."""
    latest = last_values(row)
    # A window that excludes its own messages must read them for this aggregate.
    return latest if windows.includes_last else replace(latest, frame=0)
