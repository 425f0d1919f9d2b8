"""The words that define a query, or a join, without a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from muntin.hosts.sentence import join_sides
from muntin.model.aggregates import Aggregate
from muntin.model.axis import Duration
from muntin.model.bounds import Distance
from muntin.model.errors import OptionError
from muntin.model.inputs import BY_SOURCE, InputOptions, InputOptionTypes, take_input_options
from muntin.model.joins import How, JoinNulls, JoinSpec, On, StateLayout
from muntin.model.option_names import suggest_options
from muntin.model.sentence import Sentence
from muntin.model.spec import Nulls, WindowSpec


@dataclass(frozen=True, kw_only=True, repr=False)
class Windowed(Sentence):
    """A key, an event time, and windows to be added; created by ``windowed``."""

    _keys: tuple[str, ...]

    def agg(self, *unnamed: Aggregate, **aggregates: Aggregate) -> WindowSpec:
        """Define the aggregates of the windows: output name = aggregate, over fields by name.

        Args:
            *unnamed: Refused, since every aggregate needs a name.
            **aggregates: The aggregates by the names of their fields in the output.

        Returns:
            The query, for an operator.

        Raises:
            OptionError: When an option can't work; the error names it.
        """
        spec = self._spec(aggregates, self._all_keys(self._keys), unnamed)
        refuse_zones(spec)
        for name, aggregate in aggregates.items():
            for column in aggregate.columns:
                if not isinstance(column, str):
                    hint = "name a field of the messages"
                    raise OptionError("agg", f"{name}={aggregate}", "reads no field", hint)
        return spec


def refuse_zones(spec: WindowSpec) -> None:
    """Refuse a zone per key, which operators don't support."""
    if spec.zone_column is not None:
        hint = 'give one zone, as zone="Europe/Paris", or use muntin.windowed'
        raise OptionError("zone_column", spec.zone_column, "isn't taken by operators", hint)


@suggest_options()
@take_input_options
def windowed(
    *,
    key: str | Sequence[str] = (),
    time: str | None = None,
    nulls: Nulls = "reject",
    **options: Unpack[InputOptionTypes],
) -> Windowed:
    """Start the definition of a windowed aggregation over messages that are passed to an operator.

    The words are those of ``muntin.windowed``, which starts with a DataFrame: its columns are the
    fields of messages here, and the clock is the operator's. Messages come from no partition with
    a clock of its own, so that ``watermark="source"`` is refused.

    Args:
        key: The fields of the key. Without any, each window has the messages of all keys.
        time: The field of the event time; not needed for windows of rows.
        **options: The options of the input, as `InputOption` declares them.
        nulls: Whether a message with NULL in a key is rejected (``reject``), or NULL is a value of
            the key like any other (``group``).

    Example:
        >>> from muntin import count
        >>> spec = windowed(key="user", time="ts", lateness="30 s").tumbling("10 s").agg(n=count())
        >>> str(spec.windows), spec.keys, spec.lateness
        ('tumbling 10 seconds', ('user',), 30000000)
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    input_options = InputOptions.parse(time, options)
    if input_options.watermark == BY_SOURCE:
        hint = 'leave it out, or give a list of fields, as in watermark=["device"]'
        raise OptionError("watermark", BY_SOURCE, "needs a source with partitions", hint)
    return Windowed(_keys=keys, _input_options=input_options, _nulls=nulls)


def join(
    left: Windowed,
    right: Windowed,
    *,
    on: On,
    within: Distance | None = None,
    as_of: bool | Duration = False,
    newest: bool = False,
    how: How = "inner",
    layout: StateLayout | None = None,
    nulls: JoinNulls = "reject",
    shared_time: bool = False,
    each_change: bool = False,
) -> JoinSpec:
    """Define a join of two streams of messages, for ``JoinWindow`` or ``SessionJoinWindow``.

    The words are those of ``muntin.join``, which joins DataFrames.

    Args:
        left: ``windowed(time=…)``, with or without windows; a key isn't needed.
        right: The right side, in the form of ``left``.
        on: The fields that must be equal: a name, several, or pairs of a left and a right name.
        within: How far apart partners may be: one length either way, or two: how far the right
            one may be before the left one and after it; ``("-5 seconds", "10 seconds")`` is from
            5 to 10 seconds after it. ``muntin.rows(3)`` counts source offsets since each side's
            first. Without it partners share a window of each side that has
            windows, or a session of both; or have the same time, if ``on`` compares the times.
        as_of: Whether the partner of a left message is the right side's newest one of its time or
            before, its version; or how old that may be at most (``"1 hour"``). A left message is
            emitted once the right side's watermark has passed it, and isn't corrected after that.
        newest: Whether the partner of a left message is the right side's newest row of its key when
            it arrives, whatever their times. Nothing waits and nothing is late. A right row whose
            columns are all NULL, besides its key, time and offset, deletes the row of its key.
            ``.keep("30 days")`` on the right side bounds how long a row is kept.
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` (left messages with a partner,
            once), ``anti`` (left messages without a partner).
        layout: Whether state is sorted by ``time`` or by ``keys`` first; chosen by default.
        nulls: How to treat a message with NULL in a key: ``reject``; ``unmatched``, to emit it on
            the sides whose unmatched messages the join emits; or ``group``, where NULL equals NULL.
        shared_time: Whether both sides share one watermark, the later one of theirs, so that a
            silent side doesn't make messages of the other wait. Messages that it then sends behind
            that watermark are late.
        each_change: Whether the pair of two windows is emitted again whenever one of them is
            emitted: the newest of both, with ``emission`` and ``revision``. The messages are the
            outputs of window operators, ``on`` are their keys and bounds, and a side's time is its
            ``window_end``; ``.late(grace=…, each=True)`` is how late its windows may change.

    Raises:
        OptionError: When an option can't work; the error names it.

    Example:
        >>> near = join(windowed(time="at"), windowed(time="at"), on="id", within="2 minutes")
        >>> str(near.bound), near.state_layout
        ('from 2 minutes before to 2 minutes after', 'time')
    """
    for name, side in (("left", left), ("right", right)):
        if not isinstance(side, Windowed):
            hint = "write join(windowed(time=…), …)"
            raise OptionError(name, type(side).__name__, "isn't windowed", hint)
        if side._input_options.clocks:
            hint = "leave it out: a side of a join has one clock here"
            raise OptionError("watermark", list(side._input_options.clocks), "isn't taken", hint)
    options = {
        "on": on, "within": within, "as_of": as_of, "newest": newest, "how": how, "layout": layout,
        "nulls": nulls, "shared_time": shared_time, "each_change": each_change,
    }  # fmt: skip
    return join_sides(left, right, options)
