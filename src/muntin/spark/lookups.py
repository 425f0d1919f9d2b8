"""Messages joined with tables that don't change, before their windows are formed."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.model.errors import OptionError
from muntin.model.pipeline import SIDE_COLUMNS, Derived, Lookup, Relation, quoted

_LEFT, _RIGHT = SIDE_COLUMNS


def looked_up(lookup: Lookup, left: DataFrame, right: DataFrame) -> DataFrame:
    """Rows with those that they meet in a table: the columns of both, shared ones once.

    Raises:
        OptionError: When the table is a stream, or has columns of the rows' names.
    """
    if right.isStreaming:
        problem = "is a stream, and nothing bounds a pair in time or rows"
        hint = (
            "compare the times of both as well, as in AND a.ts BETWEEN b.ts - INTERVAL ... AND b.ts"
        )
        raise OptionError("JOIN", lookup.name, problem, hint)
    taken = {name.lower() for name in left.columns}
    shared = {name.lower() for name in lookup.shared}
    shows = lookup.how in ("inner", "left")
    twice = [name for name in right.columns if name.lower() in taken - shared]
    if shows and twice:
        hint = f"give its columns other names: JOIN (SELECT ... AS ... FROM ...) AS {lookup.name}"
        problem = f"has columns that the messages have as well: {', '.join(twice)}"
        raise OptionError("JOIN", lookup.name, problem, hint)
    joined = left.alias(_LEFT).join(right.alias(_RIGHT), F.expr(lookup.on), lookup.how)
    if not shows:
        return joined
    more = (name for name in right.columns if name.lower() not in taken)
    return joined.select(f"{_LEFT}.*", *(F.col(f"{_RIGHT}.{quoted(name)}") for name in more))


def both(left: Callable[[], DataFrame], right: Callable[[], DataFrame]) -> DataFrame:
    """What the condition of a lookup is over."""
    return left().alias(_LEFT).crossJoin(right().alias(_RIGHT))


def refuse_offset(relation: Relation, offset: tuple[str, str]) -> None:
    """Refuse to count messages once by their offsets where one may have become several rows."""
    while isinstance(relation, Derived | Lookup):
        if isinstance(relation, Lookup) and relation.how in ("inner", "left"):
            problem = f"is that of each row that a message has met in {relation.name}"
            hint = "leave OFFSET FOR out, or look up with EXISTS"
            raise OptionError("offset", offset, problem, hint)
        relation = relation.source
