"""The sentences that say a query, or a join, where there is no DataFrame to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muntin.model.aggregates import Aggregate
from muntin.model.axis import Duration, Length
from muntin.model.errors import OptionError
from muntin.model.inputs import Marks
from muntin.model.joins import How, JoinNulls, JoinSpec, On, StateLayout
from muntin.model.sentence import Sentence, joined
from muntin.model.spec import Nulls, WindowSpec


@dataclass(frozen=True, kw_only=True)
class Windowed(Sentence):
    """A key, an event time, and (soon) windows; made by ``windowed``."""

    _keys: tuple[str, ...]

    def agg(self, *unnamed: Aggregate, **aggregates: Aggregate) -> WindowSpec:
        """Say what the windows compute; output name = aggregate, over fields by name.

        Args:
            *unnamed: Refused, since every aggregate needs a name.
            **aggregates: The aggregates by the names of their fields in the output.

        Returns:
            The query, for an operator.

        Raises:
            OptionError: Naming what can't work.
        """
        spec = self._spec(aggregates, self._all_keys(self._keys), unnamed)
        for name, aggregate in aggregates.items():
            for column in aggregate.columns:
                if not isinstance(column, str):
                    hint = "name a field of the messages"
                    raise OptionError("agg", f"{name}={aggregate}", "reads no field", hint)
        return spec


def windowed(
    *,
    key: str | Sequence[str] = (),
    time: str | None = None,
    offset: tuple[str, str] | None = None,
    lateness: Duration = "0 seconds",
    max_ahead: Duration | None = "15 minutes",
    idle: Duration | None = None,
    nulls: Nulls = "reject",
) -> Windowed:
    """Begin a windowed aggregation over messages that are handed to an operator.

    The words are those of ``muntin.windowed``, which begins with a DataFrame.

    Args:
        key: The fields of the key. Without any, the windows are those of all messages together.
        time: The field of the event time. Windows that are measured in rows need none.
        offset: The fields of a message's partition and of its offset in it. A message whose
            offset was taken before changes nothing, also after a restart, and the operator can
            say from where to replay. Windows that are measured in rows lie on the offsets of a
            partition then, and the partition is the first key; without offsets they count a
            key's messages as they arrive.
        lateness: How far the watermark trails the greatest event time.
        max_ahead: How far ahead of the operator's clock an event time may be, 15 minutes by
            default. What is further is rejected and doesn't move the watermark. ``None`` takes
            anything.
        idle: After how long without messages the watermark moves on with the wall clock, so that
            the last windows emit. What comes behind it then is late. Never by default.
        nulls: Whether a message with NULL in a key is rejected (``reject``), or NULL is a value of
            the key like any other (``group``).

    Example:
        >>> from muntin import count
        >>> spec = windowed(key="user", time="ts", lateness="30 s").tumbling("10 s").agg(n=count())
        >>> str(spec.windows), spec.keys, spec.lateness
        ('tumbling 10 seconds', ('user',), 30000000)
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    return Windowed(
        _keys=keys,
        _marks=Marks.given(time, lateness, max_ahead, offset, idle),
        _nulls=nulls,
    )


def join(
    left: Windowed,
    right: Windowed,
    *,
    on: On,
    within: Length | Sequence[Length | int] | None = None,
    as_of: bool | Duration = False,
    how: How = "inner",
    layout: StateLayout | None = None,
    nulls: JoinNulls = "reject",
    shared_time: bool = False,
    each_change: bool = False,
) -> JoinSpec:
    """Say a join of two streams of messages, for ``JoinWindow`` or ``SessionJoinWindow``.

    The words are those of ``muntin.join``, which joins DataFrames.

    Args:
        left: ``windowed(time=…)``, with or without windows; a key isn't needed.
        right: The same.
        on: The fields that must be equal: a name, several, or pairs of a left and a right name.
        within: How far partners may lie apart: one length either way, or two: how far the right
            one may lie before the left one and after it; ``("-5 seconds", "10 seconds")`` is from
            5 to 10 seconds after it. ``muntin.rows(3)`` counts source offsets since each side's
            first. Without it partners share a window of each side that has
            windows, or a session of both; or have the same time, where ``on`` compares the times.
        as_of: Whether the partner of a left message is the right side's newest one of its time or
            before, its version; or how old that may be at most (``"1 hour"``). A left message is
            emitted once the right side's watermark has passed it, and isn't corrected after that.
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` (left messages with a partner,
            once), ``anti`` (those without).
        layout: Whether state is sorted by ``time`` or by ``keys`` first; else it is chosen.
        nulls: What becomes of a message with NULL in a key, which has no partner: ``reject``, or
            ``unmatched``: it is emitted as one on the sides of which the join emits those.
        shared_time: Whether both sides go by one watermark, the later one of theirs, so that a side
            which is silent keeps nothing of the other waiting. What it then sends behind that
            watermark is late.
        each_change: Whether the pair of two windows is given again whenever one of them is emitted:
            the newest of both, with ``emission`` and ``revision``. The messages are what operators
            of windows emit, ``on`` are their keys and bounds, and a side's time is its
            ``window_end``; ``.late(grace=…, each=True)`` is how late its windows may change.

    Raises:
        OptionError: Naming what can't work.

    Example:
        >>> near = join(windowed(time="at"), windowed(time="at"), on="id", within="2 minutes")
        >>> str(near.bound), near.state_layout
        ('from 2 minutes before to 2 minutes after', 'time')
    """
    for name, given in (("left", left), ("right", right)):
        if not isinstance(given, Windowed):
            hint = "write join(windowed(time=…), …)"
            raise OptionError(name, type(given).__name__, "isn't windowed", hint)
    options = {
        "on": on,
        "within": within,
        "as_of": as_of,
        "how": how,
        "layout": layout,
        "nulls": nulls,
        "shared_time": shared_time,
        "each_change": each_change,
    }
    return joined(left, right, options)
