from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from muntin.model.errors import MissingExtraError, OptionError, StateCorruptedError
from muntin.stores import WindowMeta, rocks
from muntin.stores.values import find_codec


def test_json_values_are_read_back() -> None:
    json = find_codec("json")
    for value in ({"a": [1, None, "é"]}, 2**70, 0.1, -math.inf, "", False):
        assert json.from_bytes(json.to_bytes(value)) == value
    assert json.to_bytes({"a": [1, 2]}) == b'{"a":[1,2]}'


@pytest.mark.parametrize(("name", "value"), [("json", b"x"), ("raw", "x"), ("meta", {"n": 1})])
def test_values_that_a_codec_cannot_write(name: str, value: object) -> None:
    with pytest.raises(OptionError, match="value="):
        find_codec(name).to_bytes(value)


def test_metadata_takes_messages_in_any_order() -> None:
    meta = WindowMeta(start=0, end=60)
    for number, offset in enumerate((5, 3, 9), 1):
        meta = meta.taking(offset, aggregate=number)
    assert meta == WindowMeta(start_offset=3, last_offset=9, start=0, end=60, aggregate=3)
    assert meta.to_bytes() == b"[3,9,0,60,3]"


@pytest.mark.parametrize("data", [b"[1,2]", b"{}", b"nothing"])
def test_damaged_metadata_is_named(data: bytes) -> None:
    with pytest.raises(StateCorruptedError, match="can't be read"):
        WindowMeta.from_bytes(data)


def test_rocks_names_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(MissingExtraError, match=r"the RocksDB store .* 'muntin\[rocks\]'"):
        rocks(tmp_path / "rows")
    assert not (tmp_path / "rows").exists()
