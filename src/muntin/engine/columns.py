"""Names of the engine's internal columns, which can't clash with the user's names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import polars as pl

from muntin.model.errors import OptionError
from muntin.model.inputs import DURATIONS
from muntin.model.pipeline import EMISSION_COLUMNS, WINDOW_BOUNDS
from muntin.model.spec import WindowSpec

# The beginning of each name, except within frames of partials and of windows.
_INTERNAL = "__muntin"
# Internal columns of messages, beside the user's columns.
TIME = "__muntin_time"
MALFORMED = "__muntin_malformed"
# The flags of messages whose time is beyond a limit, by the reason to reject them.
LIMIT_FLAGS = {one.reason: f"{_INTERNAL}_{one.reason}" for one in DURATIONS if one.reason}
# The flags of messages whose time doesn't move the watermark.
TIME_FLAGS = (MALFORMED, *LIMIT_FLAGS.values())
KEEP = "__muntin_keep"
CLOCK = "__muntin_clock"
# The columns of a source with the bytes of a message that it couldn't decode, and what is wrong.
PAYLOAD, PAYLOAD_DETAIL = "malformed", "malformed_detail"
# The partition of the source that a message came from.
PARTITION = "__muntin_partition"
# The position up to which a message extends its session, if each message has its own gap.
REACH = "__muntin_reach"
# Whether a message begins or ends its session, and the value that its session keeps.
STARTS = "__muntin_start"
ENDS = "__muntin_end"
SAME = "__muntin_same"
# These columns by the options of sessions.
CONDITIONS = {"start": STARTS, "end": ENDS, "same": SAME}
# The key of a query without keys, with the same value in all messages.
ALL = "__muntin_all"
# The keys of grouping sets, the number of the set, and whether a copy of a message is counted.
SET_KEY = "__muntin_set_key"
GROUPING = "__muntin_grouping"
COUNTS = "__muntin_counts"

# In frames of partials and of windows.
PANE = "pane"
WINDOW = "window"
MESSAGES = "n"
FIRST = "first"
LAST = "last"
# The end of a session that a condition has cut.
END = "end"

# In frames of results and of rejected messages.
WINDOW_START, WINDOW_END = WINDOW_BOUNDS
EMISSION, REVISION = EMISSION_COLUMNS
REASON = "reason"
WATERMARK = "watermark"


def is_internal(name: str) -> bool:
    """Return whether a column of messages is one that no user sees.

    Example:
        >>> is_internal(TIME), is_internal("time")
        (True, False)
    """
    return name.startswith(_INTERNAL)


def keys(spec: WindowSpec) -> list[str]:
    """Return the engine's names of the key columns."""
    return [f"k{i}" for i in range(len(message_keys(spec)))]


def message_keys(spec: WindowSpec) -> list[str]:
    """Return the key columns of messages, of which there is always at least one."""
    if spec.sets is not None:
        return [*(f"{SET_KEY}{i}" for i in range(len(spec.key_columns))), GROUPING]
    return list(spec.key_columns) or [ALL]


@lru_cache(256)
def number(name: str, value: int = 0) -> pl.Expr:
    """Return a column with the same integer in all rows."""
    return pl.lit(value, dtype=pl.Int64).alias(name)


def partial(index: int, suffix: str) -> str:
    """Return the name of a partial column of the aggregate with an index."""
    return f"a{index}.{suffix}"


def refuse_patterns(option: str, names: Iterable[str]) -> None:
    """Refuse names that Polars reads as patterns of names.

    Raises:
        OptionError: When there is one.
    """
    for name in names:
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise OptionError(option, name, "is read as a pattern of names", "rename it")


def make_clash_error(option: str, name: str, whose: str) -> OptionError:
    """Return the error for a user's column that has the name of one that muntin adds."""
    return OptionError(option, name, f"is the name of a column of {whose}", "rename it")
