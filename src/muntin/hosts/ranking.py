"""The order and the columns of ranked rows, which both hosts share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muntin.engine import columns
from muntin.hosts.chain import WINDOW_TIME
from muntin.model.aggregates import Aggregate, collect_list, first_rows
from muntin.model.errors import OptionError
from muntin.model.pipeline import EMISSION_COLUMNS, WINDOW_BOUNDS, Column, Ranking, quote_name
from muntin.model.ranking import list_identity_columns

RANK = "rank"
"""The column of a row's number."""
SORT_KEY = "__muntin_by"
"""The prefix of the sort keys among the fields of a ranked row."""
Names = str | Sequence[str]
Ascending = bool | Sequence[bool]


def check_column_names(option: str, names: Names, available: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns as a tuple, if all are available."""
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if not isinstance(name, str) or name not in available:
            hint = f"give some of {', '.join(available)}"
            raise OptionError(option, name, "isn't the name of a column", hint)
        if names.count(name) > 1:
            raise OptionError(option, name, "is named twice", "name it once")
    return names


def rank_first(
    n: int, by: Names, ascending: Ascending, available: Sequence[str], *, chained: bool
) -> Ranking:
    """Return the ranking of the first rows in an order; of windows, if it is chained.

    Args:
        n: The number of rows.
        by: The columns that rows are ordered by.
        ascending: Whether the least value is first, for all columns or for each.
        available: The columns of the rows.
        chained: Whether the rows are windows with the same bounds.
    """
    names = check_column_names("by", by, available)
    if not names:
        raise OptionError("by", by, "orders by nothing", 'name columns, as in by="price"')
    directions = (ascending,) * len(names) if isinstance(ascending, bool) else tuple(ascending)
    if len(directions) != len(names):
        hint = "give one for each column of by, or one for all"
        raise OptionError("ascending", ascending, f"isn't for {len(names)} columns", hint)
    return Ranking(RANK, tuple(map(quote_name, names)), directions, n, (), chained)


def list_ranked_columns(available: Sequence[str], ranking: Ranking) -> list[str]:
    """Return the columns of ranked rows: those of the input without a window's own columns.

    Rows that are windows have a window's own columns. A name that ranked rows get is refused.
    """
    added = {ranking.number, *list_identity_columns(ranking)}
    added |= set() if ranking.chained else {*WINDOW_BOUNDS, *EMISSION_COLUMNS}
    for name in available:
        if name in added:
            raise columns.make_clash_error("column", name, "the rows of windows")
    return [name for name in available if name not in (*WINDOW_BOUNDS, *EMISSION_COLUMNS)]


def collect_ranked(row: object, ranking: Ranking) -> Aggregate:
    """Return the aggregate that collects the rows of a window, as far as they are ranked."""
    if ranking.most is None:
        return collect_list(row)
    return first_rows(row, ranking.most, ranking.ascending, ranking.function)


def list_star(fields: Sequence[str], per: Sequence[str], ranking: Ranking) -> list[str]:
    """Return the columns that ``*`` stands for in the rows of windows.

    Args:
        fields: The columns of a row, in the order of its table.
        per: The keys, without the bounds of the windows.
        ranking: The ranking.
    """
    details = {columns.PAYLOAD, columns.PAYLOAD_DETAIL}
    if details <= {*fields}:
        # Counted messages aren't malformed, so these columns would be NULL.
        fields = [name for name in fields if name not in details]
    if ranking.star is None:
        return list(dict.fromkeys((*per, *WINDOW_BOUNDS, *fields)))
    return list(dict.fromkeys((*(ranking.star or fields), *WINDOW_BOUNDS, WINDOW_TIME)))


def complete_names(shown: Iterable[str], per: Sequence[str], ranking: Ranking) -> list[str]:
    """Return the columns of ranked rows with those that identify a row."""
    names = dict.fromkeys(name for name in shown if name not in EMISSION_COLUMNS)
    missing = [name for name in (*per, *WINDOW_BOUNDS) if name not in names]
    numbers = (ranking.number, *list_identity_columns(ranking))
    return list(dict.fromkeys((*missing, *names, *numbers)))


def expand_choice(
    chosen: Iterable[Column], shown: Iterable[str], per: Sequence[str], ranking: Ranking
) -> dict[str, str]:
    """Return the SQL of each column of a select list over ranked rows, by its name.

    The columns that identify a row are always among them, and its emission and revision never.

    Args:
        chosen: The columns of the select list.
        shown: The names that ``*`` stands for.
        per: The keys, without the bounds of the windows.
        ranking: The ranking.
    """
    texts: dict[str, str] = {}
    for column in chosen:
        every = {name: quote_name(name) for name in shown} if column.text == "*" else {}
        texts |= every or {column.name: column.text}
    names = complete_names(texts, per, ranking)
    return {name: texts.get(name, quote_name(name)) for name in names}


def check_bounds(n: int, available: Sequence[str]) -> None:
    """Refuse to rank windows whose bounds aren't among their columns."""
    if not {*WINDOW_BOUNDS} <= {*available}:
        raise OptionError("top", n, "needs windows with their bounds", "select them")
