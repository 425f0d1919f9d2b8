"""Windows over windows: the engine over the engine says what the oracle says over the oracle."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.doors import Door, EngineDoor, OracleDoor, StandaloneDoor
from tests.property import chains
from tests.property.agreement import step_differences
from tests.property.chains import Chain
from tests.property.streams import EXTREMES

ENGINES = [EngineDoor(), EngineDoor(3), EngineDoor(2, restart=True), EngineDoor(2, repeat=True)]
OPERATORS = [StandaloneDoor(), StandaloneDoor(restart=True)]


def check(door: Door, chain: Chain) -> None:
    # An operator of one's own gets messages and nothing else.
    follows = door in ENGINES
    below, wanted = chains.run(OracleDoor(), chain, follows=follows)
    assume(door.runs(chain.outer, chains.between(chain, below, follows=follows)))
    full = [f for step in below for f in step.firings if f["emission"] == "full"]
    # A window of the last microsecond of 9999 ends in 10000, which no datetime can say:
    # Standalone, it is malformed as a message.
    assume(door in ENGINES or all(f["window_end"] <= EXTREMES[1] for f in full))
    _, above = chains.run(door, chain, follows=follows)
    found = [text for pair in zip(above, wanted, strict=True) for text in step_differences(*pair)]
    assert found == []
    # Each inner window is there once, whatever the policies.
    names = (*chain.inner.spec.keys, "window_start", "window_end")
    assert len({tuple(f[name] for name in names) for f in full}) == len(full)
    assert sum(step.counts["seen"] for step in above) == len(full)


@pytest.mark.parametrize("doors", [ENGINES, OPERATORS], ids=["engine", "standalone"])
@given(data=st.data())
def test_a_chain_says_what_oracles_over_oracles_say(doors: list[Door], data: st.DataObject) -> None:
    check(data.draw(st.sampled_from(doors)), data.draw(chains.chains()))


@pytest.mark.long
@settings(max_examples=400)
@given(door=st.sampled_from([*ENGINES, *OPERATORS]), chain=chains.chains())
def test_many_chains(door: Door, chain: Chain) -> None:
    check(door, chain)
