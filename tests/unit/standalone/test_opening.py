"""Tests that an operator which can't be opened leaves its store unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

import muntin as mt
from muntin.model.errors import OptionError, SpecChangedError, StateCorruptedError
from muntin.standalone import WindowedAggregator, windowed
from muntin.stores import rocks
from muntin.stores.kv import Image, MemoryKeyValue
from muntin.stores.rocks import _open

SHORT = windowed(key="k", time="t").tumbling("10 seconds").agg(n=mt.count())
LONG = windowed(key="k", time="t").tumbling("1 minute").agg(n=mt.count())


def test_a_folder_is_free_again(tmp_path: Path) -> None:
    with WindowedAggregator(SHORT, rocks(tmp_path / "state")) as operator:
        operator.add_message(key="a", time=1)
        operator.flush()
    with pytest.raises(SpecChangedError):
        WindowedAggregator(LONG, rocks(tmp_path / "state"))
    with WindowedAggregator(SHORT, rocks(tmp_path / "state")) as operator:
        assert operator.get_windows(0, 1)["n"].to_list() == [1]


def test_a_shared_store_goes_on_and_the_name_is_free() -> None:
    image = Image()
    with WindowedAggregator(SHORT, MemoryKeyValue(image), name="second") as operator:
        operator.add_message(key="a", time=1)
        operator.flush()
    store = MemoryKeyValue(image)
    first = WindowedAggregator(SHORT, store, name="first")
    with pytest.raises(SpecChangedError):
        WindowedAggregator(LONG, store, name="second")
    second = WindowedAggregator(SHORT, store, name="second")
    assert first.counts == {}
    assert second.get_windows(0, 1)["n"].to_list() == [1]
    with pytest.raises(OptionError, match="is taken"):
        WindowedAggregator(SHORT, store, name="second")
    assert second.get_windows(0, 1)["n"].to_list() == [1]


def test_damage_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise Exception("Corruption: block checksum mismatch in 000012.sst")

    monkeypatch.setattr("rocksdict.Rdict", fail)
    with pytest.raises(StateCorruptedError, match="block checksum"):
        _open(tmp_path / "locked")
