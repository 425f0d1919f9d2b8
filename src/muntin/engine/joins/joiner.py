"""The stateless part of a join: admission of both sides' messages, and result rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.admission import admit
from muntin.engine.arrival import Arrival, drop_repeated
from muntin.engine.clocks import clock_columns, clock_times
from muntin.model.errors import OptionError
from muntin.model.joins import OTHER, SIDES, JoinSpec, Newest, SideName
from muntin.state.offsets import TakenOffsets

SIDE = "side"
# Additional columns of rejected messages.
_OF_REJECTED = (SIDE, columns.REASON, columns.WATERMARK)
Emission = Literal["early", "full"]
# Internal columns of messages in a shard: a unique number, and whether the message came late.
ID, LATE = "__muntin_id", "__muntin_late"
# For messages that are firings: whether the watermark had reached the window's end.
REACHED = pl.col(columns.EMISSION).is_in(["full", "late"]).fill_null(False)


@dataclass
class Arrived(Arrival):
    """A batch of messages of one side before the shuffle.

    Attributes:
        messages: The messages that a shard must classify: the input columns and ``columns.TIME``.
            If messages have offsets, these are all messages without known repetitions, with their
            flags.
    """

    messages: pl.DataFrame


class Joiner:
    """The columns and the row conversions of one join, without data.

    Args:
        spec: The join.
        schemas: Types of each side's input columns, with the event time in ``columns.TIME``.
        suffix: The suffix of the right side's columns whose names the left side has, too.
        both_keys: Whether results have the keys of both sides, as with SQL's ``ON``. Otherwise the
            left side's key columns also hold the keys of unmatched right messages.
    """

    def __init__(
        self,
        spec: JoinSpec,
        schemas: Mapping[SideName, pl.Schema],
        suffix: str = "_right",
        *,
        both_keys: bool = False,
    ) -> None:
        self.spec = spec
        self.both_keys = both_keys
        self.inputs: dict[SideName, list[str]] = {
            side: [c for c in schemas[side].names() if c not in (*admission.FLAGS, columns.TIME)]
            for side in SIDES
        }
        self.schemas: dict[SideName, pl.Schema] = {
            side: pl.Schema({name: schemas[side][name] for name in self.inputs[side]})
            for side in SIDES
        }
        # True if rows replace earlier ones of their side, and pairs are emitted again.
        self.revises = isinstance(spec.bound, Newest)
        self._check_keys()
        if self.revises:
            self._check_revisions()
        self.names = self._names(suffix)
        self.aside = self._aside(suffix)

    def _check_keys(self) -> None:
        left, right = (self.schemas[side] for side in SIDES)
        for one, other in zip(self.spec.left.keys, self.spec.right.keys, strict=True):
            kinds = left[one], right[other]
            if kinds[0].is_nested() or kinds[0].is_float():
                hint = "use strings, integers, dates, timestamps, booleans or decimals"
                raise OptionError("on", one, f"has type {kinds[0]}", hint)
            if kinds[0] != kinds[1] and not all(kind.is_integer() for kind in kinds):
                text = f"is {kinds[0]} on the left and {kinds[1]} ({other}) on the right"
                raise OptionError("on", one, text, "cast one of them")
            # Unmatched right messages are emitted with their key in the left side's column,
            # which must be wide enough.
            takes_key = "right" in self.spec.unmatched and not self.both_keys
            if takes_key and not _holds(*kinds):
                text = f"is {kinds[0]}, too narrow for {other} ({kinds[1]}) on the right"
                raise OptionError("on", one, text, f"cast it to {kinds[1]}")

    def _check_revisions(self) -> None:
        for side in SIDES:
            kinds = self.schemas[side]
            number, word = (kinds.get(c) for c in (columns.REVISION, columns.EMISSION))
            if number is None or not number.is_integer() or word != pl.String():
                hint = "give windows, whose emission and revision say which row is the newest"
                text = f"needs to know which row of the {side} side replaces another"
                raise OptionError("each_change", True, text, hint)

    def _names(self, suffix: str) -> dict[SideName, dict[str, str]]:
        """Return the output column of each input column; the right side's keys may have none."""
        own: dict[SideName, list[str]] = self.inputs
        if self.revises:
            # Pairs have their own emission and revision.
            beside = (columns.EMISSION, columns.REVISION)
            own = {side: [n for n in own[side] if n not in beside] for side in SIDES}
        left = {name: name for name in own["left"]}
        if columns.EMISSION in left:
            raise columns.make_clash_error("left", columns.EMISSION, "results")
        if self.spec.how in ("semi", "anti"):
            return {"left": left, "right": {}}
        right: dict[str, str] = {}
        for name in own["right"]:
            if name in self.spec.right.keys and not self.both_keys:
                continue
            given = name + suffix if name in left else name
            if given == columns.EMISSION:
                raise columns.make_clash_error("right", name, "results")
            if given in left or given in right.values():
                raise _double(suffix, given)
            right[name] = given
        return {"left": left, "right": right}

    def _aside(self, suffix: str) -> dict[SideName, dict[str, str]]:
        """Return the columns of rejected messages; sides share a column if its types are equal."""
        left, right = (self.schemas[side] for side in SIDES)
        shared = {
            name: name if left.get(name, kind) == kind else name + suffix
            for name, kind in right.items()
        }
        aside: dict[SideName, dict[str, str]]
        aside = {"left": {name: name for name in left}, "right": shared}
        for side in SIDES:
            for name, out in aside[side].items():
                # The reason is added before the columns are renamed.
                if out in _OF_REJECTED or name == columns.REASON:
                    raise columns.make_clash_error(side, name, "rejected messages")
                if out != name and (out in left or out in right):
                    raise _double(suffix, out)
        return aside

    @property
    def outputs(self) -> dict[str, pl.DataType]:
        """The columns of results except ``emission``, with their types."""
        return {
            out: self.schemas[side][name]
            for side in SIDES
            for name, out in self.names[side].items()
        }

    def no_messages(self, side: SideName) -> pl.DataFrame:
        """Return an empty frame of messages, with all columns and types."""
        return pl.DataFrame(schema={**self.schemas[side], columns.TIME: pl.Int64()})

    @property
    def nothing_rejected(self) -> pl.DataFrame:
        """An empty frame of rejected messages, with all columns."""
        kinds: dict[str, pl.DataType] = {SIDE: pl.String()}
        for side in SIDES:
            kinds |= {o: self.schemas[side][name] for name, o in self.aside[side].items()}
        kinds |= {columns.REASON: pl.String(), columns.WATERMARK: pl.Int64()}
        return pl.DataFrame(schema=kinds)

    def arrive(
        self, side: SideName, messages: pl.DataFrame, taken: TakenOffsets | None = None
    ) -> Arrived:
        """Reject the messages that can be classified without a shard."""
        given, nothing = self.spec.side(side), self.nothing_aside(side)
        required = self.spec.required(side)
        if given.offset is not None:
            before, axis = taken or TakenOffsets(), self.spec.axis
            by = clock_columns(given, messages)
            new, known = drop_repeated(messages, given.offset, before, axis, by)
            new = new.drop(columns.CLOCK, columns.PARTITION, strict=False)
            return Arrived(new, rejected=nothing, **known)
        counted, rejected = admit(messages, required, None)
        counts = admission.count_messages(messages, counted, rejected)
        del counts["counted"]
        aside = [r.select(*self.inputs[side], columns.REASON) for r in rejected]
        return Arrived(
            counted.select(*self.inputs[side], columns.TIME),
            rejected=pl.concat([nothing, *aside]),
            counts=counts,
            latest=admission.find_latest_time(
                messages.filter(REACHED) if self.revises else messages
            ),
            partitions=clock_times(messages, clock_columns(given, messages)),
            clock=admission.find_latest_arrival(messages),
        )

    def nothing_aside(self, side: SideName) -> pl.DataFrame:
        """Return an empty frame of rejected messages of a side, with its own columns."""
        return pl.DataFrame(schema={**self.schemas[side], columns.REASON: pl.String()})

    def set_aside(
        self, side: SideName, rejected: pl.DataFrame, watermark: int | None
    ) -> pl.DataFrame:
        """Convert rejected messages of one side to the columns for both sides."""
        named = [pl.col(name).alias(out) for name, out in self.aside[side].items()]
        return rejected.select(
            pl.lit(side).alias(SIDE),
            *named,
            columns.REASON,
            pl.lit(watermark, dtype=pl.Int64).alias(columns.WATERMARK),
        )

    def paired(
        self, left: pl.DataFrame, right: pl.DataFrame, final: bool, on_time: Emission = "early"
    ) -> pl.DataFrame:
        """Return results for pairs of partners, row by row; both frames have ``LATE``.

        Pairs without a late message have the emission ``on_time``.
        """
        parts = [f.select(self._renamed(s)) for s, f in zip(SIDES, (left, right), strict=True)]
        rows = pl.concat(parts, how="horizontal")
        return rows.with_columns(_emission(left[LATE] | right[LATE], final, on_time))

    def first(self, left: pl.DataFrame, final: bool) -> pl.DataFrame:
        """Return results for left messages with their first partner, from ``once``."""
        return left.select(self._renamed("left")).with_columns(_emission(left[LATE], final))

    def unmatched(self, side: SideName, messages: pl.DataFrame) -> pl.DataFrame:
        """Return results for unmatched messages of one side, with nulls for the other."""
        rows = messages.select(self._renamed(side))
        if side == "right" and not self.both_keys:
            keys = zip(self.spec.left.keys, self.spec.right.keys, strict=True)
            left = self.schemas["left"]
            rows = rows.with_columns(
                messages[other].cast(left[one]).alias(one) for one, other in keys
            )
        missing = {out: kind for out, kind in self.outputs.items() if out not in rows.columns}
        nulls = [pl.lit(None, dtype=kind).alias(out) for out, kind in missing.items()]
        rows = rows.with_columns(nulls).select(*self.outputs)
        return rows.with_columns(pl.lit("full").alias(columns.EMISSION))

    def nothing_emitted(self) -> pl.DataFrame:
        """Return an empty frame of results."""
        beside: dict[str, pl.DataType] = {columns.EMISSION: pl.String()}
        beside |= {columns.REVISION: pl.Int64()} if self.revises else {}
        return pl.DataFrame(schema={**self.outputs, **beside})

    def _renamed(self, side: SideName) -> list[pl.Expr]:
        return [pl.col(name).alias(out) for name, out in self.names[side].items()]

    def wanted(self, side: SideName, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the distinct keys of a side's messages, with the other side's names and types."""
        there = OTHER[side]
        names = zip(self.spec.side(side).keys, self.spec.side(there).keys, strict=True)
        kinds = self.schemas[there]
        asked = messages.select(
            # A value that doesn't fit the other side's type has no partner.
            pl.col(mine).cast(kinds[theirs], strict=False).alias(theirs)
            for mine, theirs in names
        )
        return asked.drop_nulls().unique()


def once(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct left messages of pairs, given row by row; both frames have ``LATE``.

    A message is late if all of its pairs have a late message.
    """
    pairs = left.with_columns(left[LATE] | right[LATE])
    return pairs.sort(LATE, maintain_order=True).unique(ID, keep="first", maintain_order=True)


def _holds(one: pl.DataType, other: pl.DataType) -> bool:
    """Return whether a column of one type can hold all values of another type."""
    if one == other:
        return True
    (low, high), (least, greatest) = (_range(kind) for kind in (one, other))
    return low <= least and greatest <= high


def _range(kind: pl.DataType) -> tuple[int, int]:
    assert isinstance(kind, pl.datatypes.IntegerType)
    low, high = pl.select(low=kind.min(), high=kind.max()).row(0)
    return low, high


def _double(suffix: str, name: str) -> OptionError:
    hint = "rename one of them, or give another suffix="
    return OptionError("suffix", suffix, f"makes two columns {name!r}", hint)


def _emission(late: pl.Series, final: bool, on_time: Emission = "early") -> pl.Series:
    def same(word: str) -> pl.Series:
        return pl.Series(columns.EMISSION, [word]).new_from_index(0, len(late))

    return same("full") if final else same("late").zip_with(late, same(on_time))
