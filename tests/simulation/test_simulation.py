"""Runs a small part of the simulation, and tests that a run depends only on its seed.

``make simulate ARGS="--minutes 60"`` runs longer, and prints each failing case with its seed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulation.cases import HOSTS, HostName, KindName, draw_case
from tests.simulation.local import run_local
from tests.simulation.running import Simulation
from tests.simulation.spark import run_spark


@pytest.mark.parametrize(
    ("host", "kind", "cases"),
    [
        ("local", "counting", 100),
        ("spark", "counting", 12),
        ("local", "windows", 10),
        ("local", "joins", 6),
        ("spark", "windows", 5),
        ("spark", "joins", 4),
    ],
)
def test_runs_end_as_the_oracle_says(host: HostName, kind: KindName, cases: int) -> None:
    simulation = Simulation(1_000, hosts=[host], kinds=[kind])
    assert [str(finding) for finding in simulation.run(240, cases)] == []
    assert simulation.faults > simulation.cases


def test_commits_that_wait_for_the_disk_leave_no_damage() -> None:
    """After a power cut, batches may be repeated with other rows, but all can be read."""
    problems = [
        problem
        for seed in range(40)
        for problem in run_local(draw_case(seed, ["local"], ["counting"]), sync_every=60.0).problems
    ]
    assert [problem for problem in problems if "was written again" not in problem] == []
    assert problems != []


def test_a_seed_whose_first_draw_is_filtered_out_is_drawn_again() -> None:
    assert draw_case(10_000_347, ["local"], ["windows"]) == draw_case(
        10_000_347, ["local"], ["windows"]
    )


@pytest.mark.parametrize("host", HOSTS)
def test_a_seed_decides_everything(host: HostName) -> None:
    runs = {"local": run_local, "spark": run_spark}
    case = replace(draw_case(5, [host], ["counting"]), rate=0.1)
    first, second = runs[host](case), runs[host](case)
    assert first.failed_events == second.failed_events != []
    assert first.steps == second.steps
    assert [table.batches.keys() for table in first.tables.values()] == [
        table.batches.keys() for table in second.tables.values()
    ]
