"""Windows in the time zone of each key: each zone is an axis of its own.

Messages of all zones are combined at once, into cells whose panes are numbered in their zone. A
shard then has an inner shard for each zone, and all of them follow one watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache

import polars as pl

from muntin.engine import columns
from muntin.engine.output import Shard, ShardOutput
from muntin.engine.results import no_results
from muntin.engine.windows.combine import Combined, Combiner
from muntin.engine.windows.dedup import DividedShard
from muntin.engine.windows.panes import find_pane_in_zone, group_by_zone
from muntin.model.days import Days
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.model.zones import ZonedWindows, list_zones

# By zone: the numbers of windows that wait for their policy, and of rows in the state.
ZONES = "zones"


class ZonedCombiner(Combiner):
    """A combiner of messages whose windows are in the zone of their key."""

    def __init__(self, spec: WindowSpec, schema: pl.Schema) -> None:
        assert isinstance(spec.windows, ZonedWindows)
        self.windows = spec.windows
        if schema[self.windows.column] != pl.String():
            problem = f"has type {schema[self.windows.column]}"
            hint = "give a column of texts such as 'Europe/Paris'"
            raise OptionError("zone_column", self.windows.column, problem, hint)
        super().__init__(spec, schema)

    def in_zone(self, zone: str) -> Combiner:
        """Return the combiner of the windows of one zone."""
        combiner = copy(self)
        combiner.zone = zone
        return combiner

    @property
    def zone_key(self) -> str:
        """The engine's name of the key column with the zones."""
        return self.key_names[self.windows.column]

    def _add_keys(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Flag messages with an unknown zone; a NULL in a key is another reason to reject them."""
        is_unknown = ~pl.col(self.windows.column).is_in(_zone_names()).fill_null(True)
        if columns.MALFORMED in messages.columns:
            is_unknown = is_unknown | pl.col(columns.MALFORMED)
        return super()._add_keys(messages).with_columns(is_unknown.alias(columns.MALFORMED))

    def _first_open_position(
        self, messages: pl.DataFrame, watermark: int | None
    ) -> int | pl.Expr | None:
        if watermark is None:
            return None
        return self._by_zone(messages, lambda windows: self._find_first_open(windows, watermark))

    def _count_partly_late(self, accepted: pl.DataFrame, watermark: int | None) -> int:
        if watermark is None or not len(accepted):
            return 0
        edge = self._by_zone(accepted, lambda windows: self._find_whole_edge(windows, watermark))
        return int(accepted.select((pl.col(columns.TIME) < edge).sum()).item())

    def _by_zone(self, messages: pl.DataFrame, formula: Callable[[Days], int | None]) -> pl.Expr:
        """Return an expression for a formula of the windows of each message's zone."""
        zones = list_zones().intersection(messages[self.windows.column].unique().to_list())
        values = {zone: formula(self.windows.in_zone(zone)) for zone in zones}
        zone = pl.col(self.windows.column)
        return zone.replace_strict(values, default=None, return_dtype=pl.Int64)

    def _pane(self) -> pl.Expr:
        zone = pl.col(self.windows.column)
        return find_pane_in_zone(pl.col(columns.TIME), zone, self.windows).alias(columns.PANE)


class ZonedShard(DividedShard):
    """Windows on the time axis in the zone of each key, with an inner shard for each zone."""

    combiner: ZonedCombiner

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        state, judged = self.state, self.state.watermark
        wall = state.clock(combined, wall)
        state.watermark = state.follow(judged, combined, self.spec, wall, final=final)
        for part in combined:
            state.count(part.counts)
        cells = self._split_by_zone(combined)
        outputs = {
            zone: self._step_zone(zone, cells.get(zone, []), judged, wall, final)
            for zone in sorted({*state.partitions, *cells})
            if zone in cells or final or self._passes_edge(zone, judged)
        }
        sizes = state.extra.setdefault(ZONES, {})
        sizes |= {zone: [output.pending, output.rows] for zone, output in outputs.items()}
        state.wall = wall
        state.save()
        rejected = [part.rejected for part in combined]
        nothing, counts = no_results(self.combiner), dict(state.counts)
        whole = ShardOutput.combine([*outputs.values()], nothing, rejected, counts)
        return replace(
            whole,
            results=whole.results.sort(self._order, maintain_order=True),
            judged=judged,
            watermark=state.watermark,
            pending=sum(pending for pending, _ in sizes.values()),
            rows=sum(rows for _, rows in sizes.values()),
            clocks=state.describe_clocks(self.spec.idle, wall),
        )

    def _open_part(self, part: str) -> Shard:
        combiner = self.combiner.in_zone(part)
        inner = self.make(combiner, self.state.partition(part), self.state.cache)
        inner.state.watermark = self.state.watermark
        return inner

    def _split_by_zone(self, combined: Sequence[Combined]) -> dict[str, list[pl.DataFrame]]:
        """Return the cells of each zone, in the order of the batch."""
        cells: dict[str, list[pl.DataFrame]] = {}
        for part in combined:
            if len(part.cells):
                for zone, places in group_by_zone(part.cells[self.combiner.zone_key]):
                    cells.setdefault(zone, []).append(part.cells[places])
        return cells

    def _passes_edge(self, zone: str, judged: int | None) -> bool:
        """Return whether windows of a zone without messages may emit in this step."""
        watermark = self.state.watermark
        if self.spec.fires_by_clock or judged is None or watermark is None:
            return True
        windows = self.combiner.windows.in_zone(zone)
        return windows.next_edge(judged, self.spec.firing.grace) <= watermark

    def _step_zone(
        self,
        zone: str,
        cells: Sequence[pl.DataFrame],
        judged: int | None,
        wall: int,
        final: bool,
    ) -> ShardOutput:
        inner = self._begin_part(zone, judged)
        watermark, nothing = self.state.watermark, self.combiner.nothing_rejected
        reached = None if watermark is None else watermark + self.spec.lateness
        batch = [Combined(frame, rejected=nothing) for frame in cells or [self.combiner.no_cells]]
        batch[0].reached = reached
        return inner.step(batch, wall, final=final)


@cache
def _zone_names() -> pl.Series:
    """Return the names of all zones as one list, for ``is_in``."""
    return pl.Series(sorted(list_zones()), dtype=pl.String()).implode()
