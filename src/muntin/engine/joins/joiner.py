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
from muntin.engine.dtypes import are_comparable
from muntin.model.bounds import ByArrival, SideName
from muntin.model.errors import OptionError
from muntin.model.joins import OTHER, SIDES, JoinSpec
from muntin.state.offsets import TakenOffsets
from muntin.state.rows import drop_columns, stack_rows

SIDE = "side"
# Additional columns of rejected messages.
_REJECTED_COLUMNS = (SIDE, columns.REASON, columns.WATERMARK)
Emission = Literal["early", "full"]
# Internal columns of messages in a shard: a unique number, and whether the message came late.
ID, LATE = "__muntin_id", "__muntin_late"
# For messages that are emissions of windows: whether the watermark had reached the window's end.
WINDOW_HAS_ENDED = pl.col(columns.EMISSION).is_in(["full", "late"]).fill_null(False)


@dataclass
class SideArrival(Arrival):
    """A batch of messages of one side before the shuffle.

    Attributes:
        messages: The messages that a shard must classify: the input columns and ``columns.TIME``.
            If messages have offsets, these are all messages that the task doesn't know as
            repeated, with their flags.
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
        for side, schema in schemas.items():
            columns.refuse_patterns(side, schema)
        self.inputs: dict[SideName, list[str]] = {
            side: [c for c in schemas[side].names() if c not in (*admission.FLAGS, columns.TIME)]
            for side in SIDES
        }
        self.schemas: dict[SideName, pl.Schema] = {
            side: pl.Schema({name: schemas[side][name] for name in self.inputs[side]})
            for side in SIDES
        }
        # True if rows replace earlier ones of their side, and pairs are emitted again.
        self.revises = spec.bound.revises
        self._check_keys()
        if self.revises:
            self._check_revisions()
        self.result_names = self._name_result_columns(suffix)
        self.rejected_names = self._name_rejected_columns(suffix)
        # The columns of results except ``emission``, with their types.
        self.result_types = self._list_types(self.result_names)
        self._make_empty_frames()

    def _make_empty_frames(self) -> None:
        """Make the frames without rows, which every batch needs."""
        self.no_messages: dict[SideName, pl.DataFrame] = {}
        # The rejected messages of a side, with its own columns, and those of both sides.
        self.no_side_rejected: dict[SideName, pl.DataFrame] = {}
        reason = {columns.REASON: pl.String()}
        for side, schema in self.schemas.items():
            self.no_messages[side] = pl.DataFrame(schema={**schema, columns.TIME: pl.Int64()})
            self.no_side_rejected[side] = pl.DataFrame(schema={**schema, **reason})
        own = self._list_types(self.rejected_names)
        kinds = {SIDE: pl.String(), **own, **reason, columns.WATERMARK: pl.Int64()}
        self.no_rejected = pl.DataFrame(schema=kinds)
        # Messages in a shard, with their numbers.
        self.no_numbered: dict[SideName, pl.DataFrame] = {
            side: frame.with_columns(columns.number(ID), pl.lit(False).alias(LATE))
            for side, frame in self.no_messages.items()
        }
        added: dict[str, pl.DataType] = {columns.EMISSION: pl.String()}
        added |= {columns.REVISION: pl.Int64()} if self.revises else {}
        self.no_results = pl.DataFrame(schema={**self.result_types, **added})

    def _list_types(self, names: Mapping[SideName, Mapping[str, str]]) -> dict[str, pl.DataType]:
        return {
            out: self.schemas[side][name] for side in SIDES for name, out in names[side].items()
        }

    def _check_keys(self) -> None:
        left, right = (self.schemas[side] for side in SIDES)
        for one, other in zip(self.spec.left.keys, self.spec.right.keys, strict=True):
            kinds = left[one], right[other]
            if kinds[0].is_nested() or kinds[0].is_float():
                hint = "use strings, integers, dates, timestamps, booleans or decimals"
                raise OptionError("on", one, f"has type {kinds[0]}", hint)
            if not are_comparable(*kinds):
                text = f"is {kinds[0]} on the left and {kinds[1]} ({other}) on the right"
                raise OptionError("on", one, text, "cast one of them")
            # Unmatched right messages are emitted with their key in the left side's column,
            # which must be wide enough.
            takes_key = "right" in self.spec.outer_sides and not self.both_keys
            if takes_key and not _can_hold(*kinds):
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

    def _name_result_columns(self, suffix: str) -> dict[SideName, dict[str, str]]:
        """Return the output column of each input column; the right side's keys may have none."""
        own: dict[SideName, list[str]] = self.inputs
        if self.revises:
            # Pairs have their own emission and revision.
            added = (columns.EMISSION, columns.REVISION)
            own = {side: [n for n in own[side] if n not in added] for side in SIDES}
        left = {name: name for name in own["left"]}
        if columns.EMISSION in left:
            raise columns.make_clash_error("left", columns.EMISSION, "results")
        if self.spec.how in ("semi", "anti"):
            return {"left": left, "right": {}}
        right: dict[str, str] = {}
        for name in own["right"]:
            if name in self.spec.right.keys and not self.both_keys:
                continue
            output = name + suffix if name in left else name
            if output == columns.EMISSION:
                raise columns.make_clash_error("right", name, "results")
            if output in left or output in right.values():
                raise _make_duplicate_error(suffix, output)
            right[name] = output
        return {"left": left, "right": right}

    def _name_rejected_columns(self, suffix: str) -> dict[SideName, dict[str, str]]:
        """Return the columns of rejected messages; sides share a column if its types are equal."""
        left, right = (
            {n: kind for n, kind in self.schemas[side].items() if not self._is_added_key(side, n)}
            for side in SIDES
        )
        shared = {
            name: name if left.get(name, kind) == kind else name + suffix
            for name, kind in right.items()
        }
        names: dict[SideName, dict[str, str]]
        names = {"left": {name: name for name in left}, "right": shared}
        for side in SIDES:
            for name, out in names[side].items():
                # The reason is added before the columns are renamed.
                if out in _REJECTED_COLUMNS or name == columns.REASON:
                    raise columns.make_clash_error(side, name, "rejected messages")
                if out != name and (out in left or out in right):
                    raise _make_duplicate_error(suffix, out)
        return names

    def _is_added_key(self, side: SideName, name: str) -> bool:
        """Return whether a column is a key that a statement adds to those of the user."""
        return name in self.spec.side(side).keys and columns.is_internal(name)

    @property
    def example_columns(self) -> list[str]:
        """The columns of rejected messages with their side, their position and their key."""
        sides = ((self.spec.side(name), self.rejected_names[name]) for name in SIDES)
        own = (
            names[c]
            for side, names in sides
            for c in (*(side.offset or ()), *side.keys)
            if c in names
        )
        return [SIDE, *own]

    def arrive(
        self, side: SideName, messages: pl.DataFrame, taken: TakenOffsets | None = None
    ) -> SideArrival:
        """Reject the messages that can be rejected without a shard, and summarize the others."""
        side_spec, no_rejected = self.spec.side(side), self.no_side_rejected[side]
        required = self.spec.list_required_keys(side)
        if side == "right" and isinstance(self.spec.bound, ByArrival):
            messages = admission.admit_deletions(messages)
        if side_spec.offset is not None:
            taken_offsets, axis = taken or TakenOffsets(), self.spec.axis
            clocks = clock_columns(side_spec, messages)
            new, summary = drop_repeated(messages, side_spec.offset, taken_offsets, axis, clocks)
            new = drop_columns(new, columns.CLOCK, columns.PARTITION)
            return SideArrival(new, rejected=no_rejected, **summary)
        counted, rejected = admit(messages, required, None)
        counts = admission.count_messages(messages, counted, rejected)
        del counts["counted"]
        rejected = [r[[*self.inputs[side], columns.REASON]] for r in rejected]
        return SideArrival(
            counted[[*self.inputs[side], columns.TIME]],
            rejected=stack_rows([no_rejected, *rejected]),
            counts=counts,
            latest=admission.find_latest_time(
                messages.filter(WINDOW_HAS_ENDED) if self.revises else messages
            ),
            partitions=clock_times(messages, clock_columns(side_spec, messages)),
            clock=admission.find_latest_arrival(messages),
        )

    def align_rejected(
        self, side: SideName, rejected: pl.DataFrame, watermark: int | None
    ) -> pl.DataFrame:
        """Convert rejected messages of one side to the columns for both sides."""
        renamed = [pl.col(name).alias(out) for name, out in self.rejected_names[side].items()]
        return rejected.select(
            pl.lit(side).alias(SIDE),
            *renamed,
            columns.REASON,
            pl.lit(watermark, dtype=pl.Int64).alias(columns.WATERMARK),
        )

    def build_pairs(
        self, left: pl.DataFrame, right: pl.DataFrame, final: bool, on_time: Emission = "early"
    ) -> pl.DataFrame:
        """Return results for pairs of partners, row by row; both frames have ``LATE``.

        Pairs without a late message have the emission ``on_time``.
        """
        if not len(left):
            return self.no_results
        rows = self._select_results("left", left).hstack(self._select_results("right", right))
        return rows.hstack([_make_emission(left[LATE] | right[LATE], final, on_time)])

    def build_semi_results(self, left: pl.DataFrame, final: bool) -> pl.DataFrame:
        """Return results for left messages with their first partner.

        ``select_distinct_left`` selects them.
        """
        return self._select_results("left", left).hstack([_make_emission(left[LATE], final)])

    def build_unmatched(self, side: SideName, messages: pl.DataFrame) -> pl.DataFrame:
        """Return results for unmatched messages of one side, with nulls for the other."""
        if not len(messages):
            return self.no_results
        rows = self._select_results(side, messages)
        if side == "right" and not self.both_keys:
            keys = zip(self.spec.left.keys, self.spec.right.keys, strict=True)
            left = self.schemas["left"]
            rows = rows.with_columns(
                messages[other].cast(left[one]).alias(one) for one, other in keys
            )
        missing = {out: kind for out, kind in self.result_types.items() if out not in rows.columns}
        nulls = [pl.lit(None, dtype=kind).alias(out) for out, kind in missing.items()]
        rows = rows.with_columns(nulls).select(*self.result_types)
        return rows.with_columns(pl.lit("full").alias(columns.EMISSION))

    def _select_results(self, side: SideName, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of results that a side's messages have, by their names in results."""
        names = self.result_names[side]
        results = messages[[*names]]
        results.columns = [*names.values()]
        return results

    def convert_keys(self, side: SideName, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the distinct keys of a side's messages, with the other side's names and types."""
        other_side = OTHER[side]
        names = zip(self.spec.side(side).keys, self.spec.side(other_side).keys, strict=True)
        kinds = self.schemas[other_side]
        converted = [
            # A value that doesn't fit the other side's type has no partner.
            messages[mine].cast(kinds[theirs], strict=False).alias(theirs)
            for mine, theirs in names
        ]
        keys = pl.DataFrame(converted)
        if self.spec.nulls != "group" and any(column.null_count() for column in converted):
            keys = keys.drop_nulls()
        return keys.unique()


def select_distinct_left(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct left messages of pairs, given row by row; both frames have ``LATE``.

    A message is late if all of its pairs have a late message.
    """
    pairs = left.with_columns(left[LATE] | right[LATE])
    return pairs.sort(LATE, maintain_order=True).unique(ID, keep="first", maintain_order=True)


def _can_hold(one: pl.DataType, other: pl.DataType) -> bool:
    """Return whether a column of one type can hold all values of another type."""
    if one == other:
        return True
    (low, high), (least, greatest) = (_find_range(kind) for kind in (one, other))
    return low <= least and greatest <= high


def _find_range(kind: pl.DataType) -> tuple[int, int]:
    assert isinstance(kind, pl.datatypes.IntegerType)
    low, high = pl.select(low=kind.min(), high=kind.max()).row(0)
    return low, high


def _make_duplicate_error(suffix: str, name: str) -> OptionError:
    hint = "rename one of them, or give another suffix="
    return OptionError("suffix", suffix, f"makes two columns {name!r}", hint)


def _make_emission(late: pl.Series, final: bool, on_time: Emission = "early") -> pl.Series:
    def repeat(word: str) -> pl.Series:
        return pl.Series(columns.EMISSION, [word]).new_from_index(0, len(late))

    return repeat("full") if final else repeat("late").zip_with(late, repeat(on_time))
