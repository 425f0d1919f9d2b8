"""The fields that an operator reads from its messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from muntin.model.bounds import SideName
from muntin.model.inputs import Limits
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec


@dataclass(frozen=True)
class InputFields:
    """The fields of one stream of messages, as a query or one side of a join reads it.

    Attributes:
        keys: The fields of the key.
        required: The key fields without which a message is rejected.
        time: The field of the event time, if there is one.
        offset: The fields of the partition and of the offset in it, if there are any.
        needed: Every field that is read, with the option that names it.
        limits: How far from the clock an event time may be.
        reach: How far from a message's position its windows and the watermark may be, on the axis.
        gap: The field of a message's own gap, if sessions have one.
    """

    keys: tuple[str, ...]
    required: tuple[str, ...]
    time: str | None
    offset: tuple[str, str] | None
    needed: tuple[tuple[str, str], ...]
    limits: Limits
    reach: int
    gap: str | None = None

    @classmethod
    def of_query(cls, spec: WindowSpec) -> Self:
        """Return the fields that a query reads.

        Example:
            >>> from muntin import max
            >>> from muntin.standalone import windowed
            >>> spec = windowed(key="shop", time="at").tumbling("1 minute").agg(best=max("price"))
            >>> InputFields.of_query(spec).needed
            (('key', 'shop'), ('time', 'at'), ('agg best', 'price'))
        """
        windows = spec.uniform_windows
        needed = [("key", key) for key in spec.key_columns]
        needed += [("time", spec.time)] if spec.time is not None else []
        needed += [("offset", name) for name in spec.offset or ()]
        needed += [] if windows.own_gap is None else [("by", windows.own_gap)]
        for name, aggregate in spec.aggregates.items():
            needed += [(f"agg {name}", str(field)) for field in aggregate.columns]
        reach = windows.reach if windows.own_gap is None else windows.pace
        return cls(
            spec.key_columns,
            spec.non_null_keys,
            spec.time,
            spec.offset,
            tuple(needed),
            spec.limits,
            spec.lateness + reach,
            windows.own_gap,
        )

    @classmethod
    def of_side(cls, spec: JoinSpec, name: SideName) -> Self:
        """Return the fields that one side of a join reads."""
        side, bound = spec.side(name), spec.bound
        needed = [("on", key) for key in side.keys]
        needed += [("time", side.time)] if side.time is not None else []
        needed += [("offset", field) for field in side.offset or ()]
        reach = bound.reach + side.lateness + side.firing.grace
        keys, time, offset = side.keys, side.time, side.offset
        return cls(keys, keys, time, offset, tuple(needed), side.limits, reach)
