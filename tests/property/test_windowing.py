"""Whatever comes in whatever order, the table holds what a list would hold."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.contract.checkpoints import rescaled
from tests.unit.apps.windowing.machine import Given, Machine, call, tuples

from muntin.apps.windowing import TableProgress
from muntin.state.hashing import hash_rows

ROWS = st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 60)), max_size=12)
CALL = st.fixed_dictionaries(
    {
        "before": st.none() | st.integers(0, 70),
        "shardrows": st.none() | st.integers(0, 8),
        "most": st.none() | st.integers(1, 5),
    }
)
BATCH = st.tuples(ROWS, ROWS, st.integers(0, 25), st.lists(CALL, max_size=2))
BATCHES = st.lists(BATCH, min_size=1, max_size=7)
OPTIONS = st.fixed_dictionaries(
    {
        "maxrows": st.sampled_from([0, 1, 5, 12]),
        "shardrows": st.sampled_from([0, 1, 4, 9]),
        "historyseconds": st.sampled_from([0.004, 0.02, 0.03]),
        "shards": st.integers(1, 3),
        "averages": st.just((0.005, 0.02, 1.0)),
        "deleteyieldtime": st.just(0),
    }
)


class Oracle:
    """All rows ever inserted, and which of them are left, by the definition."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.ever: list[list[Given]] = [[] for _ in range(options.shards)]
        # Of each shard: which arrivals a call has deleted, and before which time all are.
        self.called: list[set[int]] = [set() for _ in range(options.shards)]
        self.floor = [-math.inf] * options.shards

    def insert(self, rows: list[Given]) -> None:
        frame = tuples(rows)
        which = hash_rows([frame["high"], frame["low"]]) % self.options.shards
        for row, shard in zip(rows, which.tolist(), strict=True):
            if row[2] < self.floor[shard]:
                self.called[shard].add(len(self.ever[shard]))
            self.ever[shard].append(row)

    def left(self, clock: int) -> list[list[Given]]:
        """In each shard, oldest first."""
        return [[row for _, row in rows] for rows in self._left(clock)]

    def _left(self, clock: int) -> list[list[tuple[int, Given]]]:
        """With their arrival: those not too old that are among the newest of all and of theirs."""
        placed = [
            (row[2], shard, arrival, row)
            for shard, rows in enumerate(self.ever)
            for arrival, row in enumerate(rows)
        ]
        placed.sort()
        newest = placed[-self.options.maxrows :] if self.options.maxrows else placed
        held: list[list[tuple[int, Given]]] = []
        for shard in range(self.options.shards):
            mine = [(at, row) for _, owner, at, row in placed if owner == shard]
            if self.options.shardrows:
                mine = mine[-self.options.shardrows :]
            among = {at for _, owner, at, _ in newest if owner == shard} - self.called[shard]
            young = clock - self.options.history
            held.append([(at, row) for at, row in mine if at in among and row[2] > young])
        return held

    def call(self, clock: int, limits: dict[str, int | None]) -> tuple[int, int]:
        """Delete what a call asks for; how many rows went, and how many are left to."""
        before, kept, most = limits["before"], limits["shardrows"], limits["most"]
        gone = stay = 0
        for shard, rows in enumerate(self._left(clock)):
            if not rows:
                continue
            times = [row[2] for _, row in rows]
            times.append(times[-1] + 1)
            old = 0 if before is None else sum(time < before for time in times[:-1])
            many = 0 if kept is None else max(0, len(rows) - kept)
            named = max(old, many)
            count = named if most is None else min(named, most)
            self.called[shard].update(at for at, _ in rows[:count])
            # What comes later is deleted at once where all is deleted.
            if count < named:
                self.floor[shard] = times[count]
            elif count:
                young = times[0] if before is None else min(before, times[-1])
                self.floor[shard] = max(young, times[many])
            gone, stay = gone + count, stay + named - count
        return gone, stay

    def moved(self, options: Any, clock: int) -> Oracle:
        """What is left, in other shards: by the one that it was in, and its arrival there."""
        fresh = Oracle(options)
        for rows in self.left(clock):
            fresh.insert(rows)
        return fresh


def check(progress: list[TableProgress], held: list[list[Given]], clock: int) -> None:
    whole = [row for rows in held for row in rows]
    assert sum(emitted.rows for emitted in progress) == len(whole)
    greatest = [emitted.greatest for emitted in progress if emitted.greatest is not None]
    assert max(greatest, default=None) == max((v for _, v, _ in whole), default=None)
    oldest = [emitted.oldest for emitted in progress if emitted.oldest is not None]
    assert min(oldest, default=None) == min((t for *_, t in whole), default=None)
    for place, span in enumerate((5, 20, 1000)):
        inside = [v for _, v, t in whole if clock - span < t <= clock]
        total, count = (sum(emitted.averages[place][i] for emitted in progress) for i in (0, 1))
        assert (total, count) == (sum(inside), len(inside))
    inserted, deleted = (sum(emitted.totals[i] for emitted in progress) for i in (0, 1))
    assert inserted - deleted == len(whole)
    assert not any(emitted.backlog for emitted in progress)


@given(OPTIONS, BATCHES, st.none() | st.tuples(st.integers(0, 6), st.integers(1, 4)))
def test_the_table_holds_what_it_should(
    options: dict[str, Any], batches: list[Any], moved: tuple[int, int] | None
) -> None:
    """Also when it goes on in another number of shards after some batch."""
    machine = Machine(**options)
    oracle = Oracle(machine.options)
    clock, number = 0, 0
    for at, (first, second, passed, asked) in enumerate(batches):
        if at and moved is not None and moved[0] == at:
            stores = rescaled(machine.stores, moved[1])
            machine = Machine(**{**options, "shards": moved[1]})
            machine.stores = stores
            oracle = oracle.moved(machine.options, clock)
        clock += passed
        tasks = []
        for task in (first, second):
            rows = [(number + i, value, time) for i, (value, time) in enumerate(task)]
            number += len(rows)
            oracle.insert(rows)
            tasks.append(tuples(rows))
        before = machine.copied()
        calls = [call(str(n), **limits) for n, limits in enumerate(asked)]
        progress = machine.step(clock, *tasks, calls=calls)
        answers = [oracle.call(clock, limits) for limits in asked]
        held = oracle.left(clock)
        check(progress, held, clock)
        assert machine.rows() == held
        for number, answer in enumerate(answers):
            mine = [one.answers[number] for one in progress]
            assert (sum(n for _, n, _ in mine), sum(n for *_, n in mine)) == answer
        assert before.step(clock, *tasks, calls=calls) == progress


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 4), st.booleans())
def test_chunks_are_exact_and_take_the_oldest(gaps: list[int], chunk: int, inline: bool) -> None:
    machine = Machine(
        historyseconds=0.01, inline=inline, deletechunksize=chunk, shards=1, deleteyieldtime=0
    )
    clock, held = 0, []
    for number, gap in enumerate(gaps):
        clock += gap
        row = (number, number, clock)
        held.append(row)
        aged = sum(time <= clock - 10 for *_, time in held)
        gone = min(aged, chunk) if inline else aged
        held = held[gone:]
        (progress,) = machine.step(clock, tuples([row]))
        assert (progress.deleted, progress.chunks) == (gone, math.ceil(gone / chunk))
        assert progress.backlog == aged - gone
        assert machine.rows() == [held]
