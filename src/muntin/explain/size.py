"""How much state a query will hold and how much it will say, for given rates: an estimate."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model.aggregates import Aggregate
from muntin.model.aggregates.entry import WORD
from muntin.model.axis import SECOND
from muntin.model.policies import Every, turn
from muntin.model.spec import WindowSpec

_PLACE = 16  # The pane and the number of messages.


@dataclass(frozen=True, slots=True)
class Rates:
    """What comes in.

    Attributes:
        rows: Messages a second, of all keys.
        keys: How many keys send within a window.
    """

    rows: float
    keys: int


@dataclass(frozen=True, slots=True)
class Load:
    """The load that these rates make."""

    panes: int
    rows: int
    row_bytes: int
    emitted: float

    @property
    def bytes(self) -> int:
        """Bytes of state."""
        return self.rows * self.row_bytes


def estimate(spec: WindowSpec, rates: Rates) -> Load:
    """What a query will hold and say.

    Returns:
        An estimate: keys send evenly, messages come as late as the watermark allows, and nothing
        is compressed.
    """
    windows = spec.windows
    held = _held(spec)
    if spec.axis == "rows":
        panes = windows.panes_within(held)
        rows = rates.keys * panes
        emitted = rates.rows / windows.pace
    elif windows.moves:
        panes = 0
        rows = int(min(rates.rows * held / SECOND, rates.keys * max(1, held // windows.pace))) or 1
        emitted = min(rates.keys * SECOND / windows.pace, 2 * rates.rows)
    else:
        panes = windows.panes_within(held)
        length = max(1, held // max(1, panes))
        filled = min(rates.keys, rates.rows * length / SECOND)
        rows = max(1, int(filled * panes))
        emitted = rates.keys * SECOND / windows.pace
    bytes_ = _PLACE + WORD * len(spec.keys)
    bytes_ += int(sum(_bytes(a, rates, rows, held) for a in spec.aggregates.values()))
    return Load(panes, rows, bytes_, emitted * (1 + _early(spec, rates, emitted)))


def _held(spec: WindowSpec) -> int:
    """How long a message is kept, on the windows' axis."""
    trails = spec.lateness if spec.axis == "time" else 0
    return spec.windows.length + spec.firing.retention + trails


def _early(spec: WindowSpec, rates: Rates, emitted: float) -> float:
    """How often a window emits before it is full, at most."""
    if spec.firing.early is None or emitted == 0:
        return 0.0
    early = turn(spec.firing.early, emitted=True)
    length = _held(spec) / SECOND if spec.axis == "time" else 1.0
    mine = rates.rows / max(1, rates.keys) * length
    by_rows = 0.0 if early.rows is None else mine / early.rows
    if early.period is None:
        return by_rows or mine
    by_clock = length / (early.period / SECOND) if spec.axis == "time" else mine
    least = early.least if isinstance(early, Every) else 1
    return min(by_clock + by_rows, mine / least)


def _bytes(aggregate: Aggregate, rates: Rates, rows: int, held: int) -> float:
    each = max(1.0, rates.rows * held / SECOND / max(1, rows))
    return aggregate.entry.size(aggregate, each)


def amount(count: float) -> str:
    """A number in words that can be read at a glance.

    Example:
        >>> amount(1_234_567), amount(0.25), amount(950)
        ('1.2 million', '0.25', '950')
    """
    for factor, name in ((1e9, "billion"), (1e6, "million")):
        if count >= factor:
            return f"{count / factor:.1f} {name}"
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def memory(count: float) -> str:
    """Bytes in words.

    Example:
        >>> memory(3_500_000)
        '3.5 MB'
    """
    for factor, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.1f} {name}"
    return f"{count:.0f} bytes"
