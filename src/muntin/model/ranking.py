"""Windows for ranked rows, and the refusal of windows whose rows can't be ranked."""

from __future__ import annotations

from dataclasses import replace

from muntin.model.axis import MICROSECOND
from muntin.model.errors import OptionError
from muntin.model.pipeline import NUMBER, Ranking, quote_name
from muntin.model.spec import WindowSpec
from muntin.model.windows import tumbling


def make_windows_by_end(time: str) -> WindowSpec:
    """Return windows over the results of other windows, one for all results with the same end.

    A batch has either all windows that end at a time or none of them. So its last end is complete,
    and the watermark is a microsecond ahead of it.
    """
    return WindowSpec(
        keys=(),
        time=time,
        windows=tumbling("1 microsecond"),
        aggregates={},
        lateness=-MICROSECOND,
        nulls="group",
    )


def list_identity_columns(ranking: Ranking) -> tuple[str, ...]:
    """Return the columns that identify a row of a window, besides its keys and bounds."""
    return (NUMBER,) if ranking.has_ties else (ranking.number,)


def order_by_arrival(ranking: Ranking, spec: WindowSpec) -> Ranking:
    """Let messages of equal times be numbered by their arrival, if it is known; as Flink does."""
    last = ranking.by[-1].strip("`").lower() if ranking.by else None
    by_time = spec.time is not None and last == spec.time.lower()
    if spec.offset is None or not by_time or ranking.function != "ROW_NUMBER":
        return ranking
    by = (*ranking.by, quote_name(spec.offset[-1]))
    return replace(ranking, by=by, ascending=(*ranking.ascending, ranking.ascending[-1]))


def refuse_unrankable(spec: WindowSpec) -> None:
    """Refuse windows whose ranked rows no table could follow."""
    firing = spec.firing
    if spec.windows.rolls:
        hint = "write .agg(...), or tumbling windows before top()"
        raise OptionError("top", str(spec.windows), "emit a row for each message", hint)
    if spec.windows.result_key is not None:
        hint = "write .agg(...), and rank the rows of the table"
        raise OptionError("top", str(spec.windows), "give one row for each key", hint)
    if not firing.accumulate:
        hint = "leave out deltas()"
        raise OptionError("deltas", True, "leaves no window its first rows", hint)
    refuse_delayed(spec)
    if spec.windows.retracts and (firing.emits_early or firing.grace):
        hint = "leave out early() and late(): sessions emit their rows when they are complete"
        problem = "are taken back as wholes, not row by row"
        raise OptionError("top", str(spec.windows), problem, hint)


def refuse_delayed(spec: object) -> None:
    """Refuse windows that are filled after others with the same end were emitted."""
    if isinstance(spec, WindowSpec) and spec.lag:
        hint = 'fill with "previous" or a constant'
        problem = "emits windows with one end at different times, and they are ranked at once"
        raise OptionError("fill", str(spec.firing.fill), problem, hint)
