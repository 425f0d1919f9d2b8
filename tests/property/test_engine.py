"""What must hold of every door, whatever the stream; the engine says what the oracle says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from tests.doors import Batch, Door, EngineDoor, OracleDoor
from tests.property.streams import Stream, Twins, any_streams, twins_in_time
from tests.transcripts.comparison import rejected_differences, row_differences, same_row

from muntin.engine import runs
from muntin.engine.oracle import Step
from muntin.model.spec import WindowSpec

LAYOUTS = [(1, False), (3, False), (1, True), (4, True)]
Revisions = dict[tuple[Any, ...], dict[str, Any]]


BOTH_DOORS = [
    pytest.param(OracleDoor, id="oracle"),
    pytest.param(lambda: EngineDoor(2, restart=True), id="engine-2-restarted"),
]


@pytest.fixture(autouse=True, scope="module")
def runs_are_folded_early() -> Iterator[None]:
    """Streams of a few steps would fold no runs otherwise."""
    with mock.patch.object(runs, "MOST_RUNS", 2):
        yield


@pytest.mark.parametrize(("buckets", "restart"), LAYOUTS)
@given(stream=any_streams())
def test_engine_says_what_the_oracle_says(buckets: int, restart: bool, stream: Stream) -> None:
    door = EngineDoor(buckets, restart)
    expected = OracleDoor().run(stream.spec, stream.steps)
    told = door.run(stream.spec, stream.steps)
    assert len(told) == len(expected)
    for number, (step, wanted) in enumerate(zip(told, expected, strict=True)):
        found = row_differences("firing", step.firings, wanted.firings)
        found += rejected_differences(step.rejected, wanted.rejected)
        assert found == [], f"step {number}"
        assert of_messages(step) == of_messages(wanted), f"step {number}"


@pytest.mark.parametrize("make_door", BOTH_DOORS)
@given(twins=twins_in_time())
def test_last_revisions_are_the_same_however_the_input_arrives(
    make_door: Callable[[], Door], twins: Twins
) -> None:
    door = make_door()
    expected = last_revisions(OracleDoor(), twins.spec, twins.one)
    for arrangement in (twins.one, twins.other):
        found = last_revisions(door, twins.spec, arrangement)
        assert found.keys() == expected.keys()
        differing = [at for at in expected if not same_row(found[at], expected[at])]
        assert differing == []


@pytest.mark.parametrize("make_door", BOTH_DOORS)
@given(stream=any_streams())
def test_every_message_is_accounted_for(make_door: Callable[[], Door], stream: Stream) -> None:
    for batch, step in zip(stream.steps, make_door().run(stream.spec, stream.steps), strict=True):
        counts = of_messages(step)
        assert counts.pop("seen") == len(batch.messages)
        counted = counts.pop("counted")
        reasons = Counter(row["reason"] for row in step.rejected if row["reason"] != "overflow")
        assert +Counter(counts) == reasons
        assert counted + reasons.total() == len(batch.messages)


@pytest.mark.parametrize("make_door", BOTH_DOORS)
@given(stream=any_streams())
def test_windows_speak_in_order(make_door: Callable[[], Door], stream: Stream) -> None:
    heard: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for step in make_door().run(stream.spec, stream.steps):
        places = [(row["window_start"], row["key"]) for row in step.firings]
        assert places == sorted(set(places))
        for row in step.firings:
            heard[row["window_start"], row["key"]].append(row)
    for rows in heard.values():
        assert [row["revision"] for row in rows] == list(range(len(rows)))
        emissions = [row["emission"] for row in rows]
        assert emissions == sorted(emissions, key=("early", "full", "late").index)
        assert emissions.count("full") <= 1
        assert "full" in emissions or set(emissions) == {"late"}


@pytest.mark.parametrize("make_door", BOTH_DOORS)
@given(stream=any_streams())
def test_every_counted_message_is_in_some_last_revision(
    make_door: Callable[[], Door], stream: Stream
) -> None:
    steps = make_door().run(stream.spec, stream.steps)
    counted = sum(step.counts["counted"] for step in steps)
    firings = [row for step in steps for row in step.firings]
    if stream.spec.firing.accumulate:
        firings = list({(row["key"], row["window_start"]): row for row in firings}.values())
    told = sum(row["n"] for row in firings)
    windows = stream.spec.windows
    assert counted <= told <= counted * -(-windows.size // windows.slide)


def of_messages(step: Step) -> dict[str, int]:
    """The counts of messages, without those of windows."""
    return {name: n for name, n in step.counts.items() if name != "overflow"}


def last_revisions(door: Door, spec: WindowSpec, steps: list[Batch]) -> Revisions:
    """What each window said last, without how often and why it spoke."""
    rows = (row for step in door.run(spec, steps) for row in step.firings)
    said = {(row["window_start"], row["window_end"], row["key"]): row for row in rows}
    return {at: {name: row[name] for name in spec.aggregates} for at, row in said.items()}
