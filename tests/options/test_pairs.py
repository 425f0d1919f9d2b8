"""No option of a query is ignored beside another one, or by a kind of windows."""

from __future__ import annotations

import pytest
from tests.options.pairs import (
    KINDS,
    SETTINGS,
    Setting,
    describe,
    emit,
    list_pairs,
    list_settings_of,
)

# These kinds differ most; the others take longer.
_FIRST = ("tumbling", "trailing", "sessions", "rows", "rolling rows", "sessions of offsets")
_KINDS = [
    pytest.param(kind, marks=() if kind in _FIRST else pytest.mark.slow, id=kind) for kind in KINDS
]
# Options that `explain` doesn't show, and whose effect is visible in what a query emits.
_EMITTED = ("where", "clock", "nulls", "time")


@pytest.mark.parametrize("kind", _KINDS)
def test_an_option_is_described_or_refused(kind: str) -> None:
    without = describe(kind, ())
    for one in list_settings_of(kind):
        assert one.option in _EMITTED or describe(kind, (one,)) != without or without is None, one


@pytest.mark.parametrize("kind", _KINDS)
def test_a_pair_of_options_is_described_or_refused(kind: str) -> None:
    for pair in list_pairs(kind):
        both = describe(kind, pair)
        if both is None or {one.option for one in pair} & {*_EMITTED}:
            continue
        assert both not in [describe(kind, (one,)) for one in pair], [*map(str, pair)]


def _is_visible(kind: str, one: Setting) -> bool:
    """Return whether an option changes what windows of a kind emit for these messages."""
    if one.option == "stop":
        return False  # The limit isn't reached.
    # They emit with each message anyway.
    return one.option != "each" or kind not in ("sliding rows", "rolling rows")


@pytest.mark.parametrize("kind", _KINDS)
def test_an_option_changes_what_is_emitted_or_is_refused(kind: str) -> None:
    without = emit(kind, ())
    for one in list_settings_of(kind):
        if (one.step == ".early" or one.option in _EMITTED) and _is_visible(kind, one):
            assert emit(kind, (one,)) != without or without is None, str(one)


@pytest.mark.parametrize("kind", _KINDS)
def test_a_clock_changes_what_is_emitted_or_is_refused(kind: str) -> None:
    """Arrival times matter to policies on the wall clock, and to the limit of event times."""
    (clock,) = (one for one in SETTINGS if one.option == "clock")
    (any_time,) = (one for one in SETTINGS if one.option == "max_ahead")
    by_clock = [one for one in SETTINGS if one.option in ("every", "after") or one is any_time]
    for one in by_clock:
        both, without = emit(kind, (clock, one)), emit(kind, (one,))
        assert both is None or both != without, str(one)
