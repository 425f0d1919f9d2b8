"""A share of the simulation in every run, and that a run is a function of its seed alone.

``make simulate ARGS="--minutes 60"`` goes on, and prints each failing case, shrunk, with its seed.
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
    ],
)
def test_runs_end_as_the_oracle_says(host: HostName, kind: KindName, cases: int) -> None:
    simulation = Simulation(1_000, hosts=[host], kinds=[kind])
    assert [str(finding) for finding in simulation.run(240, cases)] == []
    assert simulation.faults > simulation.cases


@pytest.mark.parametrize("host", HOSTS)
def test_a_seed_decides_everything(host: HostName) -> None:
    runs = {"local": run_local, "spark": run_spark}
    case = replace(draw_case(5, [host], ["counting"]), rate=0.1)
    one, other = runs[host](case), runs[host](case)
    assert one.struck == other.struck != []
    assert one.steps == other.steps
    assert [table.batches.keys() for table in one.tables.values()] == [
        table.batches.keys() for table in other.tables.values()
    ]
