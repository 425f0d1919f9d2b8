"""Output of the windows of one side of a join, in addition to the pairs.

A message is emitted once, by the first window that includes it, when it enters the join.

Source: the Samza SQL window operator design (the outputs of join windows).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import LATE, Joiner
from muntin.engine.joins.reading import get_side_windows
from muntin.engine.output import EnteringMessages
from muntin.engine.windows.panes import in_columns, pane_of, window_end, window_start
from muntin.model.by_number import Moving
from muntin.model.joins import SideName
from muntin.model.kinds import Paned
from muntin.model.policies import Every
from muntin.model.trailing import Trailing

_BOUNDS = (columns.WINDOW_START, columns.WINDOW_END)


def build_window_output(
    joiner: Joiner, side: SideName, names: Sequence[str], entering: Sequence[EnteringMessages]
) -> pl.DataFrame:
    """Return the messages of a side's windows, each once.

    Returns:
        ``window_start`` and ``window_end`` of the first window that includes the message, if
        windows are on a grid; the side's columns ``names``; and ``emission``.

    Raises:
        OptionError: When a name is one of the added columns.
    """
    kind = get_side_windows(joiner.spec, side)
    has_period = isinstance(joiner.spec.side(side).firing.early, Every)
    kind = None if isinstance(kind, Moving | Trailing) else kind
    added = [columns.EMISSION, *(_BOUNDS if kind is not None else ())]
    for name in names:
        if name in added:
            raise columns.make_clash_error(side, name, "window outputs")
    empty = joiner.make_empty_messages(side).with_columns(pl.lit(False).alias(LATE))
    no_messages = EnteringMessages(empty, None, False)
    return pl.concat(
        _build_part(names, kind, has_period, part) for part in (no_messages, *entering)
    )


def _build_part(
    names: Sequence[str], kind: Paned | None, has_period: bool, part: EnteringMessages
) -> pl.DataFrame:
    messages, bounds, is_full = part.messages, [], pl.lit(part.final)
    if kind is not None:
        find_first = in_columns(kind.first_window)(pane_of(pl.col(columns.TIME), kind))
        first_window = messages.select(find_first).to_series()
        messages = messages.with_columns(
            window_start(first_window, kind).alias(columns.WINDOW_START),
            window_end(first_window, kind).alias(columns.WINDOW_END),
        )
        bounds = [pl.col(_BOUNDS) + part.start]
        # A message that waited may enter because its window has ended.
        if has_period and part.watermark is not None:
            is_full = is_full | (~pl.col(LATE) & (pl.col(columns.WINDOW_END) <= part.watermark))
    late = pl.when(LATE).then(pl.lit("late")).otherwise(pl.lit("early"))
    emission = pl.when(is_full).then(pl.lit("full")).otherwise(late)
    return messages.select(*bounds, *names, emission.alias(columns.EMISSION))
