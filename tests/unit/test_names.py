"""What ``muntin`` shows of itself: its public names, all of them and no others."""

from __future__ import annotations

import pytest

import muntin as mt


def test_completion_shows_what_there_is() -> None:
    names = dir(mt)
    assert {"windowed", "join", "session", "sql", "count", "rows", "OptionError"} <= set(names)
    assert not {"Any", "TYPE_CHECKING", "annotations", "model"} & set(names)
    assert sorted(mt.__all__) == names
    assert [name for name in names if not hasattr(mt, name)] == []


def test_a_name_of_another_engine_says_what_it_is_called_here() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'avg'; it is muntin\.mean here"):
        _ = mt.avg
    with pytest.raises(AttributeError, match=r"has no attribute 'windows'$"):
        _ = mt.windows
