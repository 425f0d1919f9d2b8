"""Output of the windows of one side of a join, in addition to the pairs.

A message is emitted once, by the first window that includes it, when it enters the join.

Source: the Samza SQL window operator design (the outputs of join windows).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import LATE, Joiner
from muntin.engine.joins.reading import kind_of
from muntin.engine.output import LetIn
from muntin.engine.windows.panes import in_columns, pane_of, window_end, window_start
from muntin.model.by_number import Moving
from muntin.model.joins import SideName
from muntin.model.kinds import Paned
from muntin.model.policies import Every
from muntin.model.trailing import Trailing

_BOUNDS = (columns.WINDOW_START, columns.WINDOW_END)


def window_output(
    joiner: Joiner, side: SideName, names: Sequence[str], let_in: Sequence[LetIn]
) -> pl.DataFrame:
    """Return the messages of a side's windows, each once.

    Returns:
        ``window_start`` and ``window_end`` of the first window that includes the message, if
        windows are on a grid; the side's columns ``names``; and ``emission``.

    Raises:
        OptionError: When a name is one of the added columns.
    """
    kind, waits = kind_of(joiner.spec, side), isinstance(joiner.spec.side(side).firing.early, Every)
    kind = None if isinstance(kind, Moving | Trailing) else kind
    added = [columns.EMISSION, *(_BOUNDS if kind is not None else ())]
    for name in names:
        if name in added:
            raise columns.make_clash_error(side, name, "window outputs")
    nothing = LetIn(joiner.no_messages(side).with_columns(pl.lit(False).alias(LATE)), None, False)
    return pl.concat(_sent(names, kind, waits, part) for part in (nothing, *let_in))


def _sent(names: Sequence[str], kind: Paned | None, waits: bool, part: LetIn) -> pl.DataFrame:
    found, bounds, full = part.messages, [], pl.lit(part.final)
    if kind is not None:
        first = in_columns(kind.first_window)(pane_of(pl.col(columns.TIME), kind))
        place = found.select(first).to_series()
        found = found.with_columns(
            window_start(place, kind).alias(columns.WINDOW_START),
            window_end(place, kind).alias(columns.WINDOW_END),
        )
        bounds = [pl.col(_BOUNDS) + part.start]
        # A message that waited may enter because its window has ended.
        if waits and part.mark is not None:
            full = full | (~pl.col(LATE) & (pl.col(columns.WINDOW_END) <= part.mark))
    late = pl.when(LATE).then(pl.lit("late")).otherwise(pl.lit("early"))
    emission = pl.when(full).then(pl.lit("full")).otherwise(late)
    return found.select(*bounds, *names, emission.alias(columns.EMISSION))
