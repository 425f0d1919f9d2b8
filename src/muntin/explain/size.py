"""How much state a query will hold and how much it will say, for given rates: an estimate."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model.aggregates import Aggregate
from muntin.model.axis import DAY, SECOND
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.kinds import Kind
from muntin.model.policies import Every, EveryRows
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

# Bytes of a partial, before compression: what its columns take in Arrow.
_PARTIAL = {
    "count": 8,
    "count_if": 8,
    "sum": 16,
    "min": 8,
    "max": 8,
    "mean": 16,
    "variance": 24,
    "stddev": 24,
    "first": 16,
    "last": 16,
    "arg_min": 16,
    "arg_max": 16,
    "bool_and": 1,
    "bool_or": 1,
    "user": 16,
}
_WORD = 16  # A short string, or a number with what Arrow keeps beside it.
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
    """What that comes to.

    Attributes:
        panes: How many panes are kept at a time; 0 where there are none.
        rows: Rows of state.
        row_bytes: Bytes of one.
        told: Results a second.
    """

    panes: int
    rows: int
    row_bytes: int
    told: float

    @property
    def bytes(self) -> int:
        """Bytes of state."""
        return self.rows * self.row_bytes


def load(spec: WindowSpec, rates: Rates) -> Load:
    """What a query will hold and say.

    Args:
        spec: The query.
        rates: What comes in.

    Returns:
        An estimate: keys send evenly, messages come as late as the watermark allows, and nothing
        is compressed.
    """
    windows = spec.windows
    held = _held(spec)
    if spec.axis == "rows":
        panes = _panes(windows, held)
        rows = rates.keys * panes
        told = rates.rows / _pace(windows)
    elif isinstance(windows, Sessions | Sliding):
        panes = 0
        seconds = held / SECOND
        each = rates.rows * seconds
        most = each if isinstance(windows, Sliding) else rates.keys * max(1, held // windows.gap)
        rows = int(min(each, most)) or 1
        told = 2 * rates.rows if isinstance(windows, Sliding) else rates.keys * SECOND / windows.gap
        told = min(told, 2 * rates.rows)
    else:
        panes = _panes(windows, held)
        length = max(1, held // max(1, panes))
        filled = min(rates.keys, rates.rows * length / SECOND)
        rows = max(1, int(filled * panes))
        told = rates.keys * SECOND / _pace(windows)
    bytes_ = _PLACE + _WORD * len(spec.keys)
    bytes_ += int(sum(_bytes(a, rates, rows, held) for a in spec.aggregates.values()))
    return Load(panes, rows, bytes_, told * (1 + _early(spec, rates, told)))


def _held(spec: WindowSpec) -> int:
    """How long a message is kept, on the windows' axis."""
    windows = spec.windows
    if isinstance(windows, Sessions):
        length = 2 * windows.gap
    elif isinstance(windows, Days):
        length = windows.grid.size * DAY
    else:
        length = windows.size
    return length + spec.firing.retention + (spec.lateness if spec.axis == "time" else 0)


def _panes(windows: Kind, held: int) -> int:
    if isinstance(windows, Windows):
        return -(-held // windows.slide) * windows.panes_per_slide
    if isinstance(windows, Cumulating):
        return -(-held // windows.step)
    if isinstance(windows, Days):
        return -(-held // (windows.grid.slide * DAY)) * windows.grid.panes_per_slide
    return max(1, held)


def _pace(windows: Kind) -> int:
    """The distance between two windows of a key."""
    if isinstance(windows, Windows):
        return windows.slide
    if isinstance(windows, Cumulating):
        return windows.step
    if isinstance(windows, Days):
        return windows.grid.slide * DAY
    return windows.gap if isinstance(windows, Sessions) else 1


def _early(spec: WindowSpec, rates: Rates, told: float) -> float:
    """How often a window speaks before it is full, at most."""
    early = spec.firing.early
    if early is None or told == 0:
        return 0.0
    length = _held(spec) / SECOND if spec.axis == "time" else 1.0
    mine = rates.rows / max(1, rates.keys) * length
    if isinstance(early, Every):
        period = early.period / SECOND
        return min(length / period, mine) if spec.axis == "time" else mine
    if isinstance(early, EveryRows):
        return mine / early.rows
    return mine


def _bytes(aggregate: Aggregate, rates: Rates, rows: int, held: int) -> float:
    kind = aggregate.kind
    each = max(1.0, rates.rows * held / SECOND / max(1, rows))
    if aggregate.full_state:
        return _WORD * each
    if kind == "quantile":
        return 8 * min(each, 2.0 * float(aggregate.option("k")))
    if kind == "approx_distinct":
        return float(min(_WORD * each, float(1 << aggregate.option("lg_k"))))
    if kind == "top_k":
        return 8 * min(each, float(aggregate.option("k")))
    return float(_PARTIAL.get(kind, _WORD))


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
