"""The options of a join, declared once for frames, sources and operators."""

from __future__ import annotations

from inspect import Parameter
from typing import Required, TypedDict

from muntin.model.axis import Duration
from muntin.model.bounds import Distance
from muntin.model.declared_options import DeclaredOption
from muntin.model.joins import How, JoinNulls, On, StateLayout


class JoinOptionTypes(TypedDict, total=False):
    """The options of a join in Python, for type checkers."""

    on: Required[On]
    within: Distance | None
    as_of: bool | Duration
    newest: bool
    how: How
    layout: StateLayout | None
    nulls: JoinNulls
    shared_time: bool
    each_change: bool


JOIN_OPTIONS = (
    DeclaredOption(
        "on",
        "The columns that must be equal: a name, several, or pairs of a left and a right name.",
        Parameter.empty,
    ),
    DeclaredOption(
        "within",
        "How far partners may be apart: one length in both directions, or two lengths, how far "
        'the right message may be before the left one and after it. With `("-5 seconds", "10 '
        'seconds")` it is 5 to 10 seconds after it. 0 is the same time. `muntin.rows(3)` counts '
        "source offsets since each side's first. Without it partners share a window of each "
        "side that has windows, or a session of both; or have the same time, where `on` "
        "compares the times.",
    ),
    DeclaredOption(
        "as_of",
        "Whether the partner of a left message is its version: the right side's newest message "
        'at that time or before. A length (`"1 hour"`) is the largest age of the version. A '
        "left message is emitted once the right side's watermark has passed it, and isn't "
        "corrected after that. A right side in Kafka that is read to its end isn't waited for: "
        "then the greatest time of both sides, less the right side's `lateness=`, must have "
        "passed it.",
        False,
    ),
    DeclaredOption(
        "newest",
        "Whether the partner of a left message is the right side's newest row of its key when "
        "it arrives, whatever their times. Nothing waits and nothing is late. A right row whose "
        "columns are all NULL, besides its key, time and offset, deletes the row of its key. "
        '`.keep("30 days")` on the right side bounds how long a row is kept.',
        False,
    ),
    DeclaredOption(
        "how",
        "`inner`, `left`, `right`, `full`, `semi` (left messages with a partner, once), `anti` "
        "(those without); `inner` or `left` with `as_of` and `newest`.",
        "inner",
    ),
    DeclaredOption(
        "layout",
        "Whether state is sorted by `time` or by `keys` first; by default the join chooses.",
    ),
    DeclaredOption(
        "nulls",
        "The treatment of a message with NULL in a key: `reject`; `unmatched`, which emits it "
        "as unmatched if the join emits its side's unmatched messages; or `group`, where NULL "
        "equals NULL, for joins by `within` or by windows.",
        "reject",
    ),
    DeclaredOption(
        "shared_time",
        "Whether both sides use one watermark, the later of the two, so that a silent side "
        "doesn't make the other one wait. Its messages behind that watermark are then late.",
        False,
    ),
    DeclaredOption(
        "each_change",
        "Whether the pair of two windows is emitted again whenever one of them is emitted, with "
        "the newest of both, and with `emission` and `revision` like windows. An outer join "
        "emits unmatched windows at once, and again when a partner arrives. `on` must be the "
        "windows' keys, `window_start` and `window_end`.",
        False,
    ),
)
"""The options of a join, apart from those of the host that runs it."""
