"""Estimates the state and the output of a query for given rates."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model.aggregates import Aggregate
from muntin.model.aggregates.entry import WORD
from muntin.model.axis import SECOND
from muntin.model.errors import OptionError
from muntin.model.option_types import check_count
from muntin.model.policies import After, Every, Never, turn
from muntin.model.spec import WindowSpec

# The keys of an estimate by default.
_KEYS = 1000
_POSITION_BYTES = 16  # Bytes for the pane and the number of messages.


@dataclass(frozen=True, slots=True)
class Rates:
    """The expected input.

    Attributes:
        rows: Messages per second, of all keys.
        keys: Number of keys with messages within a window.
    """

    rows: float
    keys: int


def make_rates(rate: float | None, keys: int | None) -> Rates | None:
    """Return the rates of the options of a description, or refuse one.

    Args:
        rate: The messages per second; ``None`` estimates nothing.
        keys: The number of keys; by default a thousand.
    """
    check_count("keys", keys, of="key")
    if rate is None:
        if keys is not None:
            raise OptionError("keys", keys, "has no effect without rate=", "give both, or neither")
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < float("inf"):
        hint = "give messages per second: rate=100"
        raise OptionError("rate", rate, "isn't a rate above 0", hint)
    return Rates(rate, _KEYS if keys is None else keys)


@dataclass(frozen=True, slots=True)
class Load:
    """The estimated load.

    Attributes:
        panes: Number of panes per key.
        emitted: Results per second.
    """

    panes: int
    rows: int
    row_bytes: int
    emitted: float

    @property
    def bytes(self) -> int:
        """Bytes of state."""
        return self.rows * self.row_bytes


def estimate(spec: WindowSpec, rates: Rates) -> Load:
    """Estimate the state and the output of a query.

    The estimate assumes that keys have equal rates, messages are as late as the watermark allows,
    and nothing is compressed.
    """
    windows = spec.uniform_windows
    kept_length = _find_kept_length(spec)
    if spec.axis == "rows":
        panes = windows.panes_within(kept_length)
        rows = rates.keys * panes
        emitted = rates.rows / windows.pace
    elif windows.moves:
        panes = 0
        messages = rates.rows * kept_length / SECOND
        sessions = rates.keys * max(1, kept_length // windows.pace)
        rows = int(messages if windows.is_cut else min(messages, sessions)) or 1
        emitted = min(rates.keys * SECOND / windows.pace, 2 * rates.rows)
    else:
        panes = windows.panes_within(kept_length)
        length = max(1, kept_length // max(1, panes))
        filled = min(rates.keys, rates.rows * length / SECOND)
        rows = max(1, int(filled * panes))
        emitted = rates.keys * SECOND / windows.pace
        if windows.labels:
            # A look-back changes when a message comes, and when it falls out.
            emitted = min(emitted, 2 * rates.rows) * len(windows.labels)
    bytes_ = _POSITION_BYTES + WORD * len(spec.state_keys)
    bytes_ += int(
        sum(_estimate_bytes(a, rates, rows, kept_length) for a in spec.aggregates.values())
    )
    return Load(panes, rows, bytes_, emitted * (1 + _estimate_early(spec, rates, emitted)))


def _find_kept_length(spec: WindowSpec) -> int:
    """Return how long a message is kept, on the windows' axis."""
    trails = spec.lateness if spec.axis == "time" else 0
    return spec.uniform_windows.length + spec.firing.retention + trails


def _estimate_early(spec: WindowSpec, rates: Rates, emitted: float) -> float:
    """Return how often a window emits before it is full, at most."""
    if spec.firing.early in (None, Never()) or emitted == 0:
        return 0.0
    early = turn(spec.firing.early, emitted=True)
    if isinstance(early, Never):
        return 1.0
    length = _find_kept_length(spec) / SECOND if spec.axis == "time" else 1.0
    rows_per_window = rates.rows / max(1, rates.keys) * length
    by_rows = 0.0 if early.rows is None else rows_per_window / early.rows
    if early.period is None:
        return by_rows or rows_per_window
    period = early.wait if isinstance(early, After) else early.period
    by_clock = length / (period / SECOND) if spec.axis == "time" else rows_per_window
    least = early.least if isinstance(early, Every) else 1
    return min(by_clock + by_rows, rows_per_window / least)


def _estimate_bytes(aggregate: Aggregate, rates: Rates, rows: int, held: int) -> float:
    each = max(1.0, rates.rows * held / SECOND / max(1, rows))
    return aggregate.entry.size(aggregate, each)


def format_amount(count: float) -> str:
    """Format a number so that it can be read at a glance.

    Example:
        >>> format_amount(1_234_567), format_amount(0.25), format_amount(950)
        ('1.2 million', '0.25', '950')
    """
    for factor, name in ((1e9, "billion"), (1e6, "million")):
        if count >= factor:
            return f"{count / factor:.1f} {name}"
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def format_bytes(count: float) -> str:
    """Format a number of bytes.

    Example:
        >>> format_bytes(3_500_000)
        '3.5 MB'
    """
    for factor, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.1f} {name}"
    return f"{count:.0f} bytes"
