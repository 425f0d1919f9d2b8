"""What ``muntin`` shows of itself: its public names, all of them and no others."""

from __future__ import annotations

import muntin as mt


def test_completion_shows_what_there_is() -> None:
    names = dir(mt)
    assert {"windowed", "join", "session", "sql", "count", "rows", "OptionError"} <= set(names)
    assert not {"Any", "TYPE_CHECKING", "annotations", "model"} & set(names)
    assert sorted(mt.__all__) == names
    assert [name for name in names if not hasattr(mt, name)] == []
