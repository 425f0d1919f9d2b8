"""Tests that a query killed at any write, flush or sink call loses and repeats no row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.hosts.local.crashes import CrashError, Faults, Table, cut_power, inject_faults, run

import muntin as mt
from muntin.hosts.local.plan import LocalPlan

_START = 1_700_000_000


def _messages(count: int, seed: int) -> pl.DataFrame:
    dice = random.Random(seed)
    times = [_START + second + dice.randint(-4, 4) for second in range(0, 2 * count, 2)]
    return pl.DataFrame(
        {
            "k": [dice.choice("abc") for _ in range(count)],
            "v": [dice.randint(0, 9) for _ in range(count)],
            "at": times,
        }
    ).with_columns(pl.from_epoch("at").dt.replace_time_zone("UTC"))


def _plan_tumbling() -> LocalPlan:
    windows = mt.windowed(
        _messages(15, 1), key="k", time="at", lateness="2 seconds", max_ahead=None
    )
    windows = windows.tumbling("10 seconds").early(each=True).late(grace="4 seconds", each=True)
    return windows.agg(n=mt.count(), s=mt.sum("v")).plan


def _plan_sessions() -> LocalPlan:
    sessions = mt.windowed(_messages(15, 2), key="k", time="at", max_ahead=None, shards=2)
    return sessions.session("5 seconds").late(grace="9 seconds", each=True).agg(n=mt.count()).plan


def _plan_clocked() -> LocalPlan:
    windows = mt.windowed(_messages(15, 3), key="k", time="at", max_ahead=None)
    return windows.hopping("9 seconds", "4 seconds").early(every="5 s").agg(m=mt.median("v")).plan


def _plan_chain() -> LocalPlan:
    sides = [
        mt.windowed(_messages(16, n), time="at", lateness="9 s", max_ahead=None) for n in (4, 5)
    ]
    pairs = mt.join(*sides, on="k", within="3 seconds", how="left")
    return mt.windowed(pairs, key="k", time="at").tumbling("8 seconds").agg(n=mt.count()).plan


_QUERIES = {
    "tumbling": _plan_tumbling,
    "sessions": _plan_sessions,
    "clocked": _plan_clocked,
    "chain": _plan_chain,
}


@pytest.mark.parametrize("name", _QUERIES)
def test_a_killed_query_resumes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small files, so that the log also starts new ones.
    options: dict[str, Any] = {"rows": 4, "file_bytes": 6000}
    plan = _QUERIES[name]()
    expected = Table(), Table()
    uninterrupted = run(plan, tmp_path / "whole", expected, **options)
    assert uninterrupted.progress.adds_up()
    call, dice = 1, random.Random(7)
    while True:
        folder, faults = tmp_path / str(call), Faults(call)
        tables = Table(faults), Table(faults)
        with inject_faults(faults, monkeypatch):
            try:
                run(plan, folder, tables, **options)
            except CrashError:
                pass
            else:
                break
        if call // 3 % 2:  # else the operating system keeps the written bytes
            cut_power(folder, faults, dice)
        for table in tables:
            table.faults = lambda: None
        loop = run(plan, folder, tables, **options)
        for resumed_table, expected_table in zip(tables, expected, strict=True):
            assert resumed_table.rows.equals(expected_table.rows), f"killed at {call}"
        assert loop.progress.counts == uninterrupted.progress.counts
        assert loop.checkpoint.last_commit.final
        # `tests.simulation` kills at each call, but doesn't draw a chain.
        call += 3 if name == "chain" else 9
    assert call > 20
