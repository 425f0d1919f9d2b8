"""The engine's own columns: named by positions, not by the user's names, so none can clash."""

from __future__ import annotations

import polars as pl

from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec

# Beside the user's columns, in a frame of messages.
TIME = "__muntin_time"
FUTURE = "__muntin_future"
MALFORMED = "__muntin_malformed"
KEEP = "__muntin_keep"
CLOCK = "__muntin_clock"
# The partition of the source that a message came from.
PARTITION = "__muntin_partition"
# Up to where a message holds its session open, where each says that for itself.
REACH = "__muntin_reach"
# The same in all messages: the key of a query that has none.
ALL = "__muntin_all"
# What grouping sets are grouped by, and which copy of a message is counted.
SET_KEY = "__muntin_set_key"
GROUPING = "__muntin_grouping"
COUNTS = "__muntin_counts"

# In frames of partials and of windows.
PANE = "pane"
WINDOW = "window"
MESSAGES = "n"
FIRST = "first"
LAST = "last"

# In frames of results and of rejected messages.
WINDOW_START = "window_start"
WINDOW_END = "window_end"
EMISSION = "emission"
REVISION = "revision"
REASON = "reason"
WATERMARK = "watermark"


def keys(spec: WindowSpec) -> list[str]:
    """The key columns under the engine's names."""
    return [f"k{i}" for i in range(len(message_keys(spec)))]


def message_keys(spec: WindowSpec) -> list[str]:
    """The key columns of messages; there is always one."""
    if spec.sets is not None:
        return [*(f"{SET_KEY}{i}" for i in range(len(spec.key_columns))), GROUPING]
    return list(spec.keys) or [ALL]


def number(name: str, value: int = 0) -> pl.Expr:
    """A column that has the same whole number in all rows."""
    return pl.lit(value, dtype=pl.Int64).alias(name)


def partial(index: int, suffix: str) -> str:
    """A partial column of the aggregate at a position."""
    return f"a{index}.{suffix}"


def taken(option: str, name: str, whose: str) -> OptionError:
    """What is wrong with a user's column that has the name of one of ours beside it."""
    hint = "rename it, or leave it out"
    return OptionError(option, name, f"is a column that {whose} have already", hint)
