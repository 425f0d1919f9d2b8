"""The words that define a query, or a join, without a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from muntin.hosts.sentence import join_sides
from muntin.model.aggregates import Aggregate
from muntin.model.declared_options import take_options
from muntin.model.errors import OptionError
from muntin.model.inputs import BY_SOURCE, INPUT_OPTIONS, InputOptions, InputOptionTypes
from muntin.model.join_options import JOIN_OPTIONS, JoinOptionTypes
from muntin.model.joins import JoinSpec
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
@take_options(INPUT_OPTIONS, InputOptionTypes)
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
        **options: The options of the input, as `INPUT_OPTIONS` declares them.
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


@suggest_options('name the fields that are equal on both sides, on="id"')
@take_options(JOIN_OPTIONS, JoinOptionTypes)
def join(
    left: Windowed,
    right: Windowed,
    **options: Unpack[JoinOptionTypes],
) -> JoinSpec:
    """Define a join of two streams of messages, for ``JoinWindow`` or ``SessionJoinWindow``.

    The words are those of ``muntin.join``, whose columns are fields of messages here. With
    ``each_change`` the messages are the outputs of window operators: a side's time is its
    ``window_end``, and ``.late(grace=…, each=True)`` is how late its windows may change.

    Args:
        left: ``windowed(time=…)``, with or without windows; a key isn't needed.
        right: The right side, in the form of ``left``.
        **options: The options of a join, as `JOIN_OPTIONS` declares them.

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
    return join_sides(left, right, options)
