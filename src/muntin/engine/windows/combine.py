"""Combining messages into one row per key and pane before the shuffle, and rejecting others.

A batch of a million messages becomes a few thousand rows. Messages are classified by the watermark
in force when the batch began, which the caller must know exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.admission import admit
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.aggregates.registry import make_algebras
from muntin.engine.arrival import Arrival, drop_repeated
from muntin.engine.clocks import clock_columns, clock_times
from muntin.engine.order import Code, find_bounds, sort_rows
from muntin.engine.windows import grouped
from muntin.engine.windows.dense import Scatter
from muntin.engine.windows.panes import first_open_pane, pane_of, window_end, window_start
from muntin.model.errors import OptionError
from muntin.model.kinds import Numbered, Paned, is_paned
from muntin.model.spec import PARTLY_LATE, WindowSpec
from muntin.model.windows import Windows
from muntin.state.lookup import split_repeated
from muntin.state.offsets import TakenOffsets
from muntin.state.rows import drop_columns, stack_rows
from muntin.state.runs import add_range, find_extent, join_runs


@dataclass
class Combined(Arrival):
    """A batch of messages, combined by key and pane.

    Attributes:
        cells: One row per key and pane: ``k0…``, ``pane``, ``n`` and the partials.
        raw: Messages that only the shard can classify, unchanged; ``None`` if there are none.
    """

    cells: pl.DataFrame
    raw: pl.DataFrame | None = None


class Combiner:
    """The functions that lift messages and merge partials for one query, without data."""

    def __init__(self, spec: WindowSpec, schema: pl.Schema) -> None:
        columns.refuse_patterns("column", schema)
        columns.refuse_patterns("agg", spec.aggregates)
        self.spec = spec
        self.keys, self.message_keys = columns.keys(spec), columns.message_keys(spec)
        # Number of messages in a part of a window that slides by arrival.
        self.arrivals: int | None = None
        # The zone of a combiner of one zone, if each key has its own.
        self.zone: str | None = None
        # The engine's names of the messages' key columns.
        self.key_names = dict(zip(self.message_keys, self.keys, strict=True))
        self.schema = pl.Schema({**schema, **self._internal_keys(schema)})
        self.algebras: list[Algebra] = make_algebras(spec, schema)
        # The partials that are stored: those of the aggregates, and the bounds of sessions.
        self.stored_algebras: list[Algebra] = [*self.algebras, *self._bounds()]
        self._scatters = all(algebra.scatters for algebra in self.stored_algebras)
        # Only the shard knows a message's number, or whether its offset was taken before.
        self.forwards = spec.offset is not None or spec.axis == "rows"
        for name in self._input_columns():
            # Rejected messages are emitted with their own columns and these two.
            if name in (columns.REASON, columns.WATERMARK):
                raise columns.make_clash_error("column", name, "rejected messages")
        empty = pl.DataFrame(schema=self.schema)
        self.no_cells = self.lift(empty)
        self.nothing_rejected = empty.select(
            *self._input_columns(), pl.lit(None, dtype=pl.String).alias(columns.REASON)
        )
        for key in spec.key_columns:
            if schema[key].is_nested() or schema[key].is_float():
                hint = "use strings, integers, dates, timestamps, booleans or decimals as keys"
                if isinstance(kind := schema[key], pl.Struct):
                    hint = f"give its fields: {', '.join(f'{key}.{f.name}' for f in kind.fields)}"
                raise OptionError("key", key, f"has type {schema[key]}", hint)

    def _bounds(self) -> Sequence[Algebra]:
        return []

    def _internal_keys(self, schema: pl.Schema) -> dict[str, pl.DataType]:
        """Return the internal key columns that messages get."""
        if self.spec.sets is not None:
            return grouped.tag_messages(pl.DataFrame(schema=schema), self.spec).schema
        return {} if self.spec.key_columns else {columns.ALL: pl.Int8()}

    @cached_property
    def by_part(self) -> dict[tuple[int, int], Combiner]:
        """Combiners of the aggregates that read one part of a sliding window, by that part.

        The first one is for the whole window, even if no aggregate reads all of it.
        """
        windows = self.spec.uniform_windows
        assert windows.is_numbered
        parts = [windows.bound_part(aggregate.frame) for aggregate in self.spec.aggregates.values()]
        whole = windows.panes_per_window - 1, 0
        if {*parts} == {whole}:
            return {whole: self}
        combiners = {part: copy(self) for part in (whole, *parts)}
        for part, combiner in combiners.items():
            pairs = zip(self.algebras, parts, strict=True)
            combiner.algebras = combiner.stored_algebras = [
                algebra for algebra, own_part in pairs if own_part == part
            ]
            combiner.no_cells = combiner.lift(pl.DataFrame(schema=self.schema))
            # The copied one has the columns of all aggregates.
            vars(combiner).pop("no_windows", None)
            combiner.arrivals = part[0] - part[1] + 1
        return combiners

    @property
    def numbered_windows(self) -> Numbered:
        """The numbered windows; sliding by arrival, they are hopping windows one row apart.

        If each key has its own zone they are those of this combiner's zone. A combiner of all zones
        only needs them for frames without rows, with those of UTC.
        """
        windows = self.spec.windows.in_zone(self.zone or "UTC")
        assert windows.is_numbered
        if windows.moves and self.spec.by_arrival:
            whole = windows.panes_per_window
            return Windows(self.arrivals or whole, 1, 1 - whole, "rows")
        return windows

    @property
    def paned_windows(self) -> Paned:
        """The windows that consist of panes."""
        windows = self.numbered_windows
        assert is_paned(windows)
        return windows

    @property
    def slides_by_rows(self) -> bool:
        """True if every message has exactly one window, which ends with it."""
        windows = self.spec.windows
        return windows.moves and windows.is_numbered and windows.axis == "rows"

    @property
    def number(self) -> str:
        """The column of windows that grows with their ends: their number."""
        return columns.WINDOW

    def find_starts(self, windows: pl.DataFrame) -> pl.Series:
        """Return the starts of windows as they are emitted."""
        start = window_start(windows[columns.WINDOW], self.numbered_windows)
        return start.clip(lower_bound=0) if self.slides_by_rows else start

    def find_ends(self, windows: pl.DataFrame) -> pl.Series:
        """Return the ends of windows as they are emitted."""
        return window_end(windows[columns.WINDOW], self.numbered_windows)

    def sort_emitted(self, windows: pl.DataFrame, order: Sequence[str] = ()) -> pl.DataFrame:
        """Sort emitted windows by ``order``; by start, then key, if it is empty."""
        return sort_rows(windows, order or [columns.WINDOW, *self.keys])

    @cached_property
    def no_windows(self) -> pl.DataFrame:
        """An empty frame of windows' partials, with all columns and types."""
        return self.no_cells.rename({columns.PANE: columns.WINDOW})

    def combine(
        self,
        messages: pl.DataFrame,
        watermark: int | None,
        taken_offsets: TakenOffsets | None = None,
    ) -> Combined:
        """Combine the messages of a batch before the shuffle.

        Messages that only the shard can classify are passed on; messages with offsets that are
        known to be taken are dropped and counted.
        """
        if not self.forwards:
            return self.judge(messages, watermark)
        messages, offset = self._add_keys(messages), self.spec.offset
        if offset is None:
            clock = admission.find_latest_arrival(messages)
            return Combined(self.no_cells, messages, rejected=self.nothing_rejected, clock=clock)
        offsets, axis = taken_offsets or TakenOffsets(), self.spec.axis
        clocks = clock_columns(self.spec, messages)
        new_messages, summary = drop_repeated(messages, offset, offsets, axis, clocks)
        return Combined(
            self.no_cells,
            self._copy_for_shards(new_messages),
            rejected=self.nothing_rejected,
            **summary,
        )

    def judge(self, messages: pl.DataFrame, watermark: int | None) -> Combined:
        """Classify and lift one frame of messages, by the watermark in force.

        Messages have ``columns.TIME``, and may have the flags ``KEEP`` and ``TIME_FLAGS``.
        """
        messages = self._add_keys(messages)
        accepted, rejected = self.part(messages, watermark)
        combined = self._summarize(messages, accepted, rejected, self.lift(accepted))
        partly_late = self._count_partly_late(grouped.select_counted(accepted), watermark)
        if partly_late:
            combined.counts[PARTLY_LATE] = partly_late
        return combined

    def defer(self, messages: pl.DataFrame) -> Combined:
        """Reject what needs no watermark; other messages are passed on, and not counted yet."""
        messages = self._add_keys(messages)
        accepted, rejected = self.part(messages, None)
        combined = self._summarize(messages, accepted, rejected, self.no_cells)
        del combined.counts["counted"]
        combined.raw = self._copy_for_shards(accepted)
        return combined

    def _copy_for_shards(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the messages for shards, copied for each grouping set, as keys differ by set."""
        messages = drop_columns(messages, columns.PARTITION)
        return messages if self.spec.sets is None else grouped.copy_messages(messages, self.spec)

    def _add_keys(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Add the internal keys, such as the constant key of a query without keys."""
        if self.spec.sets is not None:
            return grouped.tag_messages(messages, self.spec)
        if self.spec.key_columns or columns.ALL in messages.columns:
            return messages
        return messages.with_columns(pl.lit(0, dtype=pl.Int8).alias(columns.ALL))

    def _summarize(
        self,
        messages: pl.DataFrame,
        accepted: pl.DataFrame,
        rejected: Sequence[pl.DataFrame],
        cells: pl.DataFrame,
    ) -> Combined:
        distinct = [one for frame in rejected if len(one := grouped.select_counted(frame))]
        return Combined(
            cells,
            rejected=self.set_aside(distinct),
            counts=admission.count_messages(
                grouped.select_counted(messages), grouped.select_counted(accepted), distinct
            ),
            latest=admission.find_latest_time(messages),
            partitions=clock_times(messages, clock_columns(self.spec, messages)),
            clock=admission.find_latest_arrival(messages),
        )

    def set_aside(self, rejected: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the rejected messages in one frame: the input columns and ``reason``."""
        frames = [r[[*self._input_columns(), columns.REASON]] for r in rejected]
        return stack_rows([self.nothing_rejected, *frames])

    def _input_columns(self) -> list[str]:
        own = admission.FLAGS if self.spec.sets is None else (*admission.FLAGS, *self.message_keys)
        return [c for c in self.schema.names() if c not in own]

    def part(
        self, messages: pl.DataFrame, watermark: int | None
    ) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """Split messages into accepted ones and those rejected, for one reason each."""
        first_open = self._first_open_position(messages, watermark)
        return admit(messages, self.spec.non_null_keys, first_open)

    def select_accepted(self, messages: pl.DataFrame, watermark: int | None) -> pl.DataFrame:
        """Return the accepted messages, in their order."""
        return self.part(self._add_keys(messages), watermark)[0]

    def _first_open_position(
        self, messages: pl.DataFrame, watermark: int | None
    ) -> int | pl.Expr | None:
        """Return the first position in an open window; ``None`` if no window is closed.

        Where it differs by message it is an expression.
        """
        return self._find_first_open(self.numbered_windows, watermark)

    def _find_first_open(self, windows: Numbered, watermark: int | None) -> int | None:
        pane = first_open_pane(windows, watermark, self.spec.firing.grace)
        if pane is None:
            return None
        if self.slides_by_rows:
            # The message's own window, which has its number, is decisive.
            pane += windows.panes_per_window - 1
        return windows.pane_start(pane)

    def _count_partly_late(self, accepted: pl.DataFrame, watermark: int | None) -> int:
        """Return the number of accepted messages that are also in closed windows."""
        windows = self.numbered_windows
        if watermark is None or not len(accepted) or self.slides_by_rows:
            return 0
        return int((accepted[columns.TIME] < self._find_whole_edge(windows, watermark)).sum())

    def _find_whole_edge(self, windows: Numbered, watermark: int) -> int:
        """Return the first position all of whose windows are open."""
        last = windows.last_pane(windows.last_ended(watermark - self.spec.firing.grace))
        return windows.pane_start(last + 1)

    def lift(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Lift accepted messages to one row per key and pane."""
        cells = self._lift_cells(messages)
        if self.spec.sets is not None and grouped.are_uncopied(messages):
            copies = grouped.copy_by_sets(cells, self.keys, self.spec.sets)
            return self.merge([copies], by=[*self.keys, columns.PANE])
        return cells

    def _lift_cells(self, messages: pl.DataFrame) -> pl.DataFrame:
        code = self._code(messages)
        if code and self._scatters and Scatter.worthwhile(code.size, len(messages)):
            cells = self._scatter(messages, code)
            if cells is not None:
                return self._settle(cells)
        return self._settle(self._group(messages, code))

    def lift_each(self, messages: pl.DataFrame, row: str) -> pl.DataFrame:
        """Lift accepted messages to one row each, numbered in the column ``row``."""
        messages = messages.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(row))
        messages = self._prepare(messages)
        group = [pl.col(name).first().alias(key) for name, key in self.key_names.items()]
        group.append(self._pane().first())
        cells = messages.group_by(row, maintain_order=True)
        return self._settle(cells.agg(*group, *self._partials(messages)))

    def _prepare(self, messages: pl.DataFrame) -> pl.DataFrame:
        prepared = [e for algebra in self.stored_algebras for e in algebra.prepare()]
        return messages.with_columns(*prepared) if prepared else messages

    def _partials(self, messages: pl.DataFrame) -> list[pl.Expr]:
        count = pl.len().cast(pl.Int64).alias(columns.MESSAGES)
        return [count, *(e for algebra in self.stored_algebras for e in algebra.lift(messages))]

    def _pane(self) -> pl.Expr:
        return pane_of(pl.col(columns.TIME), self.numbered_windows).alias(columns.PANE)

    def _scatter(self, messages: pl.DataFrame, code: Code) -> pl.DataFrame | None:
        """Lift into arrays with an entry for each key and pane; ``None`` if an aggregate can't."""
        packed = messages.select(self._pack(code)).to_series()
        scatter = Scatter(packed.to_numpy(), code.size)
        partials: list[pl.Series] = []
        for algebra in self.stored_algebras:
            lifted = algebra.scatter(messages, scatter)
            if lifted is None:
                return None
            partials += lifted
        cells = pl.DataFrame({"code": scatter.used_groups, columns.MESSAGES: scatter.count()})
        return self._unpack(cells.with_columns(*partials), code)

    def _group(self, messages: pl.DataFrame, code: Code | None) -> pl.DataFrame:
        """Lift by a hash table, in the order of the messages.

        Without a fixed order, cells would be added in another order when a batch is repeated, and
        sums of floats would differ in their last bit.
        """
        messages = self._prepare(messages)
        by = [pl.col(name).alias(key) for name, key in self.key_names.items()] + [self._pane()]
        if code is not None:
            by = [self._pack(code).alias("code")]
        cells = messages.group_by(*by, maintain_order=True).agg(*self._partials(messages))
        return cells if code is None else self._unpack(cells, code)

    def _pack(self, code: Code) -> pl.Expr:
        sources = {key: pl.col(name) for name, key in self.key_names.items()}
        return code.expression({**sources, columns.PANE: self._pane()})

    def _unpack(self, cells: pl.DataFrame, code: Code) -> pl.DataFrame:
        types = {key: self.schema[name] for name, key in self.key_names.items()}
        decoded = zip(code.names, code.columns("code"), strict=True)
        own = [column.cast(types.get(name, pl.Int64)) for name, column in decoded]
        return cells.select(*own, *(name for name in cells.columns if name != "code"))

    def _code(self, messages: pl.DataFrame) -> Code | None:
        """Return the encoding of integer keys and pane in one integer, to group twice as fast."""
        bounds = find_bounds(messages, self.message_keys)
        if bounds is None:
            return None
        first_pane, last_pane = map(
            self.numbered_windows.pane_of, find_extent(messages[columns.TIME])
        )
        keys = {self.key_names[name]: ends for name, ends in bounds.items()}
        return Code.over({**keys, columns.PANE: (first_pane, last_pane)})

    def complete(self, cells: pl.DataFrame) -> pl.DataFrame:
        """Complete stored cells with the partials of aggregates that were added since.

        These partials are those of a message without values.
        """
        missing = [c for c in self.no_cells.columns if c not in cells.columns and c != columns.PANE]
        if not missing:
            return cells
        if not len(cells):
            return pl.concat([cells, self.no_cells.select(missing)], how="horizontal")
        nothing: dict[str, list[object]] = {name: [None] for name in self.schema}
        key = {name: [cells[stored_name][0]] for name, stored_name in self.key_names.items()}
        message = pl.DataFrame(nothing | key | {columns.TIME: [0]}, schema=self.schema)
        return cells.join(self.lift(message).select(missing), how="cross")

    def merge(
        self, frames: Sequence[pl.DataFrame], by: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Merge rows of partials that have the same key and pane, earlier frames first."""
        non_empty = [f for f in frames if len(f)] or list(frames[:1])
        if by is not None:
            return self._merge_groups(pl.concat(non_empty, how="diagonal"), by)
        if len(non_empty) == 1:
            return non_empty[0]
        identity = [*self.keys, columns.PANE]
        alone, repeated = split_repeated(pl.concat(non_empty, how="diagonal"), identity)
        if not len(alone):
            return self._merge_groups(repeated, identity)
        if not len(repeated):
            return alone
        return pl.concat([alone, self._merge_groups(repeated, identity)], how="diagonal")

    def _merge_groups(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        partials = [pl.col(columns.MESSAGES).sum()]
        partials += [e for algebra in self.stored_algebras for e in algebra.merge()]
        return self._settle(rows.group_by(*by, maintain_order=True).agg(*partials))

    def combine_cells(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Combine the cells of several frames of messages into one frame."""
        if len(frames) == 1:
            return frames[0]
        ranged = [add_range(f, columns.PANE) for f in frames if len(f)]
        return join_runs(ranged, columns.PANE, self.merge) if ranged else self.no_cells

    def _settle(self, cells: pl.DataFrame) -> pl.DataFrame:
        for algebra in self.stored_algebras:
            cells = algebra.settle(cells)
        order = [*self.keys, columns.PANE, columns.MESSAGES]
        rest = [c for c in cells.columns if c not in order]
        return cells[[*(c for c in order if c in cells.columns), *rest]]
